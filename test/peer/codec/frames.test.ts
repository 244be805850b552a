import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32c } from '@node-rs/crc32';
import {
  type Forward,
  type ForwardReply,
  decodeForwardPiece,
  decodeForwardReplies,
  decodeForwards,
  encodeForwardPiece,
  encodeForwardReplies,
  encodeForwards,
  forwardBytes,
} from '../../../src/peer/codec/forward.ts';
import { FrameReader } from '../../../src/peer/codec/frame-reader.ts';
import { FRAME_KIND, FRAME_HEAD_BYTES, FRAME_PAYLOAD_BYTES_MAX, sealFrame } from '../../../src/peer/codec/frame.ts';
import type { FrameKind } from '../../../src/peer/codec/frame.ts';
import {
  decodeSnapshotAck,
  decodeSnapshotBegin,
  decodeSnapshotChunk,
  decodeSnapshotEnd,
  encodeSnapshotAck,
  encodeSnapshotBegin,
  encodeSnapshotChunk,
  encodeSnapshotEnd,
} from '../../../src/peer/codec/snapshot-transfer.ts';
import { createRandom, seedFromEnvironment } from '../../support/random.ts';
import { randomMessage } from '../../raft/codec/random-messages.ts';

const random = createRandom(seedFromEnvironment());
const seed = `SEED=${random.seed}`;

interface Received {
  readonly kind: FrameKind;
  readonly payload: Uint8Array;
}

function randomFrame(sizeMax: number): { frame: Uint8Array; received: Received } {
  const kind = random.int(1, 11) as FrameKind;
  const payload = new Uint8Array(random.bytes(random.pick([0, 1, random.int(0, 50), random.int(0, sizeMax)])));
  const frame = new Uint8Array(FRAME_HEAD_BYTES + payload.length);
  frame.set(payload, FRAME_HEAD_BYTES);
  return { frame: sealFrame(frame, kind), received: { kind, payload } };
}

function body(frame: Uint8Array): Uint8Array {
  return frame.subarray(FRAME_HEAD_BYTES);
}

/** The definition, bit by bit. */
function slowCrc(bytes: Uint8Array): number {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return ~crc >>> 0;
}

test('the checksum is CRC-32C', () => {
  // Check value of the polynomial, and 32 zeros and 32 ones as in RFC 3720 B.4.
  assert.equal(crc32c(new TextEncoder().encode('123456789')), 0xe3069283);
  assert.equal(crc32c(new Uint8Array(32)), 0x8a9136aa);
  assert.equal(crc32c(new Uint8Array(32).fill(0xff)), 0x62a8ab43);
  for (let size = 0; size < 100; size++) {
    const bytes = new Uint8Array(random.bytes(size + 7));
    const start = random.int(0, 7);
    const part = bytes.subarray(start, start + size);
    assert.equal(crc32c(part), slowCrc(part), seed);
  }
});

test('frames come out of a stream however it is cut', () => {
  for (let round = 0; round < 200; round++) {
    const frames = Array.from({ length: random.int(1, 12) }, () => randomFrame(20_000));
    const stream = Buffer.concat(frames.map(({ frame }) => frame));
    const reader = new FrameReader();
    const got: Received[] = [];
    for (let at = 0; at < stream.length;) {
      const size = random.pick([1, 3, 11, 12, 13, random.int(1, 5000), stream.length]);
      // The chunk is scribbled over afterwards: nothing may point into it.
      const chunk = Buffer.from(stream.subarray(at, at + size));
      const fault = reader.push(chunk, (kind, payload) => got.push({ kind, payload: new Uint8Array(payload) }));
      assert.equal(fault, undefined, seed);
      chunk.fill(0xee);
      at += size;
    }
    assert.deepEqual(
      got,
      frames.map(({ received }) => received),
      seed,
    );
  }
});

test('an announced length takes no memory before the bytes are there', () => {
  const reader = new FrameReader();
  const head = new Uint8Array(FRAME_HEAD_BYTES);
  new DataView(head.buffer).setUint32(0, FRAME_PAYLOAD_BYTES_MAX, true);
  assert.equal(
    reader.push(head, () => {}),
    undefined,
  );
  reader.push(new Uint8Array(100_000), () => {});
  assert.ok(reader.heldBytes <= 200_024, `${reader.heldBytes} held`);
});

test('a buffer that held a huge frame is given back', () => {
  const frame = sealFrame(new Uint8Array(FRAME_HEAD_BYTES + 3_000_000), FRAME_KIND.forward);
  const reader = new FrameReader();
  let frames = 0;
  for (let at = 0; at < frame.length; at += 65_536) reader.push(frame.subarray(at, at + 65_536), () => frames++);
  assert.equal(frames, 1);
  assert.ok(reader.heldBytes <= 4096);
});

test('an oversized length, a wrong checksum and an unknown kind are told apart', () => {
  const none = (): void => assert.fail('delivered');
  const oversized = new Uint8Array(FRAME_HEAD_BYTES);
  new DataView(oversized.buffer).setUint32(0, FRAME_PAYLOAD_BYTES_MAX + 1, true);
  assert.equal(new FrameReader().push(oversized, none), 'oversized frame');
  const slow = new FrameReader();
  assert.equal(slow.push(oversized.subarray(0, 5), none), undefined);
  assert.equal(slow.push(oversized.subarray(5), none), 'oversized frame');
  const ping = sealFrame(new Uint8Array(FRAME_HEAD_BYTES), FRAME_KIND.ping);
  for (const at of [4, 7, 8, 9, 11]) {
    const damaged = ping.slice();
    damaged[at] = (damaged[at] as number) ^ 0x40;
    assert.equal(new FrameReader().push(damaged, none), 'wrong checksum');
  }
  for (const kind of [0, 12, 255]) {
    const unknown = sealFrame(new Uint8Array(FRAME_HEAD_BYTES + 4), kind as FrameKind);
    assert.equal(new FrameReader().push(unknown, none), 'unknown frame kind');
  }
});

test('streams mutated at random end in a fault or in frames that were sent, never in an exception', () => {
  let faults = 0;
  for (let round = 0; round < 5000; round++) {
    const frames = Array.from({ length: random.int(1, 4) }, () => randomFrame(200));
    const stream = Buffer.concat(frames.map(({ frame }) => frame));
    const sent = new Set(
      frames.map(({ received }) => `${received.kind} ${Buffer.from(received.payload).toString('hex')}`),
    );
    stream[random.int(0, stream.length - 1)] = random.int(0, 255);
    const reader = new FrameReader(1000);
    for (let at = 0; at < stream.length; at += 37) {
      const fault = reader.push(stream.subarray(at, at + 37), (kind, payload) => {
        assert.ok(sent.has(`${kind} ${Buffer.from(payload).toString('hex')}`), seed);
      });
      if (fault === undefined) continue;
      faults++;
      break;
    }
  }
  assert.ok(faults > 3000, `${faults}`);
});

test('forwards, replies and the frames of a snapshot come back as they were sent', () => {
  for (let round = 0; round < 200; round++) {
    const bytes = new Uint8Array(random.bytes(random.int(0, 300)));
    const [group, transfer, boot] = [random.int(0, 65_535), random.int(0, 2 ** 32 - 1), random.int(1, 2 ** 40)];
    const count = random.int(1, 5);
    const forwards: Forward[] = Array.from({ length: count }, (_, i) => ({
      correlation: transfer >>> i,
      group,
      bytes,
    }));
    const heard: Forward[] = [];
    const payload = body(encodeForwards(forwards));
    assert.ok(decodeForwards(payload, (correlation, to, view) => heard.push({ correlation, group: to, bytes: view })));
    assert.deepEqual(heard, forwards, seed);
    assert.equal(
      payload.length,
      forwards.reduce((sum, forward) => sum + forwardBytes(forward.bytes), 0),
    );
    const replies: ForwardReply[] = forwards.map(({ correlation, bytes: answer }) => ({ correlation, bytes: answer }));
    const answers: ForwardReply[] = [];
    const good = decodeForwardReplies(body(encodeForwardReplies(boot, replies)), (to, correlation, view) => {
      assert.equal(to, boot);
      answers.push({ correlation, bytes: view });
    });
    assert.ok(good);
    assert.deepEqual(answers, replies, seed);
    const request = { correlation: transfer, group, bytes: new Uint8Array(random.bytes(random.int(1, 300))) };
    const at = random.int(0, request.bytes.length - 1);
    const piece = decodeForwardPiece(body(encodeForwardPiece(request, at, 100)));
    const part = request.bytes.slice(at, at + 100);
    assert.deepEqual(piece, { ...request, totalBytes: request.bytes.length, at, bytes: part }, seed);
    const message = randomMessage(random, 'snapshot', 1, 2);
    assert.ok(message.type === 'snapshot');
    const begin = { group, transfer, message, metadata: bytes };
    assert.deepEqual(decodeSnapshotBegin(body(encodeSnapshotBegin(begin)), 1, 2), begin, seed);
    const chunk = { group, transfer, offset: boot, bytes };
    assert.deepEqual(decodeSnapshotChunk(body(encodeSnapshotChunk(chunk))), chunk);
    const end = { group, transfer, totalBytes: boot, complete: random.chance(0.5) };
    assert.deepEqual(decodeSnapshotEnd(body(encodeSnapshotEnd(end))), end);
    const status = random.pick(['receiving', 'installed', 'failed'] as const);
    const ack = { group, transfer, boot, receivedBytes: boot, status };
    assert.deepEqual(decodeSnapshotAck(body(encodeSnapshotAck(ack))), ack);
  }
});

test('every decoder answers undefined or a value to any bytes', () => {
  const decoders: readonly ((payload: Uint8Array) => unknown)[] = [
    (payload) => decodeForwards(payload, () => {}) || undefined,
    (payload) => decodeForwardReplies(payload, () => {}) || undefined,
    (payload) => decodeSnapshotBegin(payload, 1, 2),
    decodeForwardPiece,
    decodeSnapshotChunk,
    decodeSnapshotEnd,
    decodeSnapshotAck,
  ];
  for (let round = 0; round < 5000; round++) {
    const payload = new Uint8Array(random.bytes(random.int(0, 80)));
    for (const decode of decoders) decode(payload);
  }
  for (const decode of decoders) assert.equal(decode(new Uint8Array(5)), undefined);
});
