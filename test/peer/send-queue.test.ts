import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  PRIORITY_CONTROL,
  PRIORITY_ENTRIES,
  PRIORITY_REPLIES,
  PRIORITY_SNAPSHOTS,
  type Priority,
  SendQueue,
  priorityOf,
} from '../../src/peer/send-queue.ts';
import { FRAME_KIND, FRAME_HEAD_BYTES, frameKind, sealFrame } from '../../src/peer/codec/frame.ts';
import type { FrameKind } from '../../src/peer/codec/frame.ts';
import { decodeForwardPiece } from '../../src/peer/codec/forward.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';

const random = createRandom(seedFromEnvironment());

function frame(kind: FrameKind, sizeBytes: number): Uint8Array {
  return sealFrame(new Uint8Array(Math.max(FRAME_HEAD_BYTES, sizeBytes)), kind);
}

test('within the priority of entries the queue does what a plain array with the same rule does', () => {
  for (let round = 0; round < 50; round++) {
    const bytesMax = random.int(200, 2000);
    const queue = new SendQueue(bytesMax);
    let model: Uint8Array[] = [];
    let dropped = 0;
    const bytes = (): number => model.reduce((sum, one) => sum + one.length, 0);
    for (let step = 0; step < 5000; step++) {
      if (random.chance(0.55)) {
        const one = frame(
          random.chance(0.7) ? FRAME_KIND.raft : FRAME_KIND.forward,
          random.int(12, random.chance(0.02) ? 3000 : 60),
        );
        while (model.length > 0 && bytes() + one.length > bytesMax) {
          const oldest = model.findIndex((other) => frameKind(other) === FRAME_KIND.raft);
          if (oldest < 0) break;
          model.splice(oldest, 1);
          dropped++;
        }
        const fits = model.length === 0 || bytes() + one.length <= bytesMax;
        if (fits) model.push(one);
        else dropped++;
        assert.equal(queue.push(one, PRIORITY_ENTRIES), fits, `SEED=${random.seed}`);
      } else {
        assert.equal(queue.shift(), model.shift());
      }
      assert.deepEqual([queue.count, queue.bytes, queue.droppedFrames], [model.length, bytes(), dropped]);
    }
    queue.clear();
    assert.deepEqual([queue.count, queue.bytes, queue.droppedFrames], [0, 0, dropped + model.length]);
    model = [];
  }
});

test('what is urgent overtakes, and each priority keeps its order', () => {
  const queue = new SendQueue(1024 * 1024);
  const waiting: [Priority, Uint8Array][] = [
    [PRIORITY_SNAPSHOTS, frame(FRAME_KIND.snapshotBegin, 100)],
    [PRIORITY_ENTRIES, frame(FRAME_KIND.raft, 100)],
    [PRIORITY_ENTRIES, frame(FRAME_KIND.forward, 100)],
    [PRIORITY_REPLIES, frame(FRAME_KIND.forwardReply, 100)],
    [PRIORITY_CONTROL, frame(FRAME_KIND.raft, 100)],
    [PRIORITY_SNAPSHOTS, frame(FRAME_KIND.snapshotChunk, 100)],
    [PRIORITY_CONTROL, frame(FRAME_KIND.ping, 12)],
  ];
  for (const [priority, one] of waiting) assert(queue.push(one, priority));
  const inOrder = [...waiting].sort(([a], [b]) => a - b).map(([, one]) => one);
  // A full way holds back everything but the urgent.
  assert.equal(queue.shift('urgent'), inOrder.shift());
  assert.equal(queue.shift('urgent'), inOrder.shift());
  assert.equal(queue.shift('urgent'), undefined);
  for (const one of inOrder) assert.equal(queue.shift(), one);
});

test('every kind of frame has its priority', () => {
  const kinds: readonly FrameKind[] = [
    FRAME_KIND.raft,
    FRAME_KIND.forward,
    FRAME_KIND.forwardReply,
    FRAME_KIND.snapshotBegin,
    FRAME_KIND.snapshotChunk,
    FRAME_KIND.snapshotEnd,
    FRAME_KIND.snapshotAck,
    FRAME_KIND.ping,
  ];
  assert.deepEqual(
    kinds.map((kind) => priorityOf(frame(kind, 12))),
    [3, 2, 1, 4, 4, 4, 0, 0],
  );
  assert.equal(priorityOf(frame(FRAME_KIND.forward, 1024 * 1024)), PRIORITY_ENTRIES, 'a large request, taken whole');
});

test('small requests, entries and a large request share a link, and none waits for all of another', () => {
  const queue = new SendQueue(64 * 1024 * 1024);
  const large = new Uint8Array(random.bytes(1024 * 1024));
  assert(queue.pushLarge({ correlation: 7, group: 3, bytes: large }));
  const entries = frame(FRAME_KIND.raft, 1024 * 1024);
  assert(queue.push(entries));
  const sent: Uint8Array[] = [];
  // It comes while both are under way, and goes before 64 KiB of each have passed.
  for (let i = 0; i < 6; i++) sent.push(queue.shift('all', 64 * 1024) as Uint8Array);
  const small = frame(FRAME_KIND.forward, 300);
  assert(queue.push(small));
  assert([queue.shift('all', 64 * 1024), queue.shift('all', 64 * 1024)].includes(small));
  const waiting = queue.bytes;
  assert(waiting > 1024 * 1024 && waiting < 2 * 1024 * 1024, `${waiting} bytes wait`);
  for (let next = queue.shift('all', 64 * 1024); next !== undefined; next = queue.shift('all', 64 * 1024))
    sent.push(next);
  assert.equal(queue.bytes, 0);
  const pieces = sent.filter((one) => frameKind(one) === FRAME_KIND.forwardPiece);
  assert.equal(pieces.length, 16);
  // By turns: neither has a share of more than a piece ahead.
  let ahead = 0;
  for (const one of sent.slice(0, 24)) {
    ahead += frameKind(one) === FRAME_KIND.forwardPiece ? 1 : -1;
    assert(Math.abs(ahead) <= 2, `${ahead} pieces ahead`);
  }
  const whole = new Uint8Array(large.length);
  for (const one of pieces) {
    const piece = decodeForwardPiece(one.subarray(FRAME_HEAD_BYTES));
    assert(piece !== undefined);
    assert.deepEqual([piece.correlation, piece.group, piece.totalBytes], [7, 3, large.length]);
    whole.set(piece.bytes, piece.at);
  }
  assert.deepEqual(whole, large);
});

test('a link that is lost drops a large request with the rest of its pieces', () => {
  const queue = new SendQueue(64 * 1024 * 1024);
  assert(queue.pushLarge({ correlation: 1, group: 0, bytes: new Uint8Array(1024 * 1024) }));
  assert(queue.hasRoom(31 * 1024 * 1024) && !queue.hasRoom(32 * 1024 * 1024), 'half of the queue is for requests');
  queue.shift('all', 64 * 1024);
  queue.clear();
  assert.deepEqual([queue.count, queue.bytes], [0, 0]);
  assert.deepEqual([queue.droppedFrames, queue.droppedBytes], [1, 15 * 64 * 1024]);
  assert.equal(queue.shift(), undefined);
});

test('entries that never cease let a snapshot pass now and then', () => {
  const queue = new SendQueue(64 * 1024 * 1024);
  const chunk = frame(FRAME_KIND.snapshotChunk, 1000);
  queue.push(chunk);
  for (let sent = 0; ; sent += 32 * 1024) {
    queue.push(frame(FRAME_KIND.raft, 32 * 1024));
    queue.push(frame(FRAME_KIND.raft, 32 * 1024));
    if (queue.shift() === chunk) return;
    assert(sent <= 256 * 1024, 'a quarter of a MiB goes first');
  }
});

test('the urgent priority has its own bound: its oldest Raft message is dropped, and no entry is', () => {
  const queue = new SendQueue(4096);
  const entry = frame(FRAME_KIND.raft, 4096);
  assert(queue.push(entry));
  for (let i = 0; i < 40; i++) assert(queue.push(frame(FRAME_KIND.raft, 64 * 1024), PRIORITY_CONTROL));
  assert.equal(queue.bytes, 1024 * 1024 + 4096);
  assert.equal(queue.droppedFrames, 24);
  while (queue.shift('urgent') !== undefined);
  assert.equal(queue.shift(), entry);
});
