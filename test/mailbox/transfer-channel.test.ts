import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { createLane, LaneReceiver, LaneSender, laneUsedBytes } from '../../src/mailbox/transfer-channel.ts';

function openLane(
  t: TestContext,
  bytesMax: number,
): { sender: LaneSender; receiver: LaneReceiver; used: () => number } {
  const lane = createLane(bytesMax);
  t.after(() => lane.sendPort.close());
  return {
    sender: new LaneSender(lane.sendPort, lane.shared),
    receiver: new LaneReceiver(lane.receivePort, lane.shared),
    used: () => laneUsedBytes(lane.shared),
  };
}

test('a buffer moves: detached here, whole there, in any order', (t) => {
  const { sender, receiver, used } = openLane(t, 1000);
  const buffers = [1, 2, 3].map((size) => new Uint8Array(size * 10).fill(size).buffer);
  const ids = buffers.map((buffer) => sender.send(buffer));
  assert.deepEqual(ids, [1, 2, 3]);
  assert.deepEqual(
    buffers.map((buffer) => buffer.byteLength),
    [0, 0, 0],
  );
  assert.equal(used(), 60);
  assert.deepEqual(new Uint8Array(receiver.take(3)), new Uint8Array(30).fill(3));
  receiver.discard(1);
  assert.equal(used(), 20);
  assert.deepEqual(new Uint8Array(receiver.take(2)), new Uint8Array(20).fill(2));
  assert.equal(used(), 0);
  assert.throws(() => receiver.take(2), /lane message 2 is not there/);
});

test('a full lane refuses and leaves the buffer alone', (t) => {
  const { sender, receiver } = openLane(t, 100);
  assert.equal(sender.send(new ArrayBuffer(100)), 1);
  const refused = new ArrayBuffer(1);
  assert.equal(sender.fits(1), false);
  assert.equal(sender.send(refused), -1);
  assert.equal(refused.byteLength, 1);
  receiver.discard(1);
  assert.equal(sender.send(refused), 2);
});

test('the bound of a lane has bounds', () => {
  assert.throws(() => createLane(0), /lane bound/);
  assert.throws(() => createLane(2 ** 31), /lane bound/);
});
