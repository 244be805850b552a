import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../../../src/raft/types.ts';
import { Reader, Writer } from '../../../src/base/cursor.ts';
import { FRAME_HEAD_BYTES } from '../../../src/peer/codec/frame.ts';
import { messageBytes, readMessage, writeMessage } from '../../../src/raft/codec/message.ts';
import { decodeRaftFrame, encodeRaftFrame, raftItemBytes } from '../../../src/peer/codec/raft-frame.ts';
import type { RaftItem } from '../../../src/peer/codec/raft-frame.ts';
import { createRandom, seedFromEnvironment } from '../../support/random.ts';
import { MESSAGE_TYPES, randomMessage } from './random-messages.ts';

const random = createRandom(seedFromEnvironment());
const seed = `SEED=${random.seed}`;

function encode(message: Message): Uint8Array {
  const writer = new Writer(new Uint8Array(messageBytes(message)));
  writeMessage(writer, message);
  return writer.finish();
}

test('every message comes back as it was sent', () => {
  for (let round = 0; round < 300; round++) {
    for (const type of MESSAGE_TYPES) {
      const message = randomMessage(random, type, 3, 2 ** 32 - 1);
      const reader = new Reader(encode(message));
      const back: Message | undefined = readMessage(reader, 3, 2 ** 32 - 1);
      assert.deepEqual(back, message, seed);
      assert.ok(reader.finished);
    }
  }
});

test('a message that is cut anywhere is a failure value', () => {
  for (const type of MESSAGE_TYPES) {
    for (let round = 0; round < 10; round++) {
      const bytes = encode(randomMessage(random, type, 1, 2));
      for (let size = 0; size < bytes.length; size++) {
        assert.equal(readMessage(new Reader(bytes.subarray(0, size)), 1, 2), undefined, `${type} ${size} ${seed}`);
      }
    }
  }
});

test('entry data lives on when the receive buffer is used again', () => {
  const message = randomMessage(random, 'append', 1, 2);
  assert.equal(message.type, 'append');
  const entries = [
    { term: message.term, index: message.prevIndex + 1, kind: 0 as const, data: new Uint8Array([1, 2, 3]) },
  ];
  // A Buffer, as sockets give them: its own slice() would be a view.
  const bytes = Buffer.from(encode({ ...message, entries }));
  const back = readMessage(new Reader(bytes), 1, 2);
  bytes.fill(0xee);
  assert.ok(back?.type === 'append');
  assert.deepEqual(back.entries, entries);
  assert.equal(back.entries[0]?.data.buffer.byteLength, 3);
});

test('numbers and flags that no message has are refused', () => {
  const bytes = encode({ type: 'timeout-now', from: 1, to: 2, term: 7 });
  for (const [at, value] of [
    [0, 0],
    [0, 11],
    [0, 255],
    [1, 1],
  ] as const) {
    const wrong = bytes.slice();
    wrong[at] = value;
    assert.equal(readMessage(new Reader(wrong), 1, 2), undefined);
  }
  for (const term of [-1, 0.5, NaN, Infinity, 2 ** 53]) {
    const wrong = bytes.slice();
    new DataView(wrong.buffer).setFloat64(2, term, true);
    assert.equal(readMessage(new Reader(wrong), 1, 2), undefined, String(term));
  }
});

test('an append whose terms fall, or exceed its own, is refused', () => {
  const append = (prevTerm: number, term: number, ...terms: number[]): Uint8Array => {
    const entries = terms.map((one, i) => ({ term: one, index: i + 1, kind: 0 as const, data: new Uint8Array(1) }));
    const note = { allowedBoot: 0, restored: false };
    return encode({
      type: 'append',
      from: 1,
      to: 2,
      term,
      prevIndex: 0,
      prevTerm,
      entries,
      commit: 0,
      round: 1,
      ...note,
    });
  };
  assert.ok(readMessage(new Reader(append(1, 4, 1, 3, 4)), 1, 2));
  assert.equal(readMessage(new Reader(append(2, 4, 1)), 1, 2), undefined);
  assert.equal(readMessage(new Reader(append(1, 4, 3, 2)), 1, 2), undefined);
  assert.equal(readMessage(new Reader(append(1, 4, 5)), 1, 2), undefined);
});

function randomItems(length: number): RaftItem[] {
  const types = MESSAGE_TYPES.filter((type) => type !== 'snapshot');
  return Array.from({ length }, () => ({
    group: random.int(0, 65_535),
    message: randomMessage(random, random.pick(types), 1, 2),
  }));
}

function frameOf(items: readonly RaftItem[]): Uint8Array {
  const bytes = items.reduce((sum, { message }) => sum + raftItemBytes(message), 0);
  return encodeRaftFrame(items, bytes);
}

test('a frame carries the messages of many groups in order', () => {
  for (let round = 0; round < 100; round++) {
    const items = randomItems(random.int(0, 40));
    const back: RaftItem[] = [];
    const payload = frameOf(items).subarray(FRAME_HEAD_BYTES);
    assert.ok(decodeRaftFrame(payload, 1, 2, (group, message) => back.push({ group, message })));
    assert.deepEqual(back, items, seed);
  }
});

test('a snapshot without its payload does not travel among messages', () => {
  const item = { group: 1, message: randomMessage(random, 'snapshot', 1, 2) };
  const payload = frameOf([item]).subarray(FRAME_HEAD_BYTES);
  assert.equal(
    decodeRaftFrame(payload, 1, 2, () => assert.fail('visited')),
    false,
  );
});

test('payloads that are mutated at random never throw and never read beyond their end', () => {
  let refused = 0;
  for (let round = 0; round < 20_000; round++) {
    const payload = frameOf(randomItems(random.int(1, 4))).subarray(FRAME_HEAD_BYTES);
    // The bytes after the payload would be read if the length were trusted: they must not show up.
    const size = random.chance(0.3) ? random.int(0, payload.length) : payload.length;
    const room = new Uint8Array(payload.length + 4096).fill(0xab);
    room.set(payload.subarray(0, size));
    const mutated = room.subarray(0, size);
    for (let flips = random.int(0, 6); flips > 0 && size > 0; flips--) {
      mutated[random.int(0, size - 1)] = random.pick([0, 1, 0x7f, 0x80, 0xff, random.int(0, 255)]);
    }
    let entryBytes = 0;
    const good = decodeRaftFrame(mutated, 1, 2, (_group, message) => {
      if (message.type === 'append') for (const { data } of message.entries) entryBytes += data.length;
    });
    assert.ok(entryBytes <= size, seed);
    if (!good) refused++;
  }
  assert.ok(refused > 5000, `only ${refused} refused`);
});
