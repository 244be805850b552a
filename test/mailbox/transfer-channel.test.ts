import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import {
  createTransferChannel,
  TransferReceiver,
  TransferSender,
  transferUsedBytes,
} from '../../src/mailbox/transfer-channel.ts';

function openChannel(
  t: TestContext,
  bytesMax: number,
): { sender: TransferSender; receiver: TransferReceiver; used: () => number } {
  const channel = createTransferChannel(bytesMax);
  t.after(() => channel.sendPort.close());
  return {
    sender: new TransferSender(channel.sendPort, channel.shared),
    receiver: new TransferReceiver(channel.receivePort, channel.shared),
    used: () => transferUsedBytes(channel.shared),
  };
}

test('a buffer moves: detached here, whole there, in any order', (t) => {
  const { sender, receiver, used } = openChannel(t, 1000);
  const buffers = [1, 2, 3].map((size) => new Uint8Array(size * 10).fill(size).buffer);
  const ids = buffers.map((buffer) => sender.send(buffer));
  assert.deepEqual(ids, [1, 2, 3]);
  assert.deepEqual(
    buffers.map((buffer) => buffer.byteLength),
    [0, 0, 0],
  );
  assert.equal(used(), 60);
  assert.deepEqual(new Uint8Array(receiver.take(3)), new Uint8Array(30).fill(3));
  receiver.take(1);
  assert.equal(used(), 20);
  assert.deepEqual(new Uint8Array(receiver.take(2)), new Uint8Array(20).fill(2));
  assert.equal(used(), 0);
  assert.throws(() => receiver.take(2), /transfer 2 is not there/);
});

test('a full transfer channel refuses and leaves the buffer alone', (t) => {
  const { sender, receiver } = openChannel(t, 100);
  assert.equal(sender.send(new ArrayBuffer(100)), 1);
  const refused = new ArrayBuffer(1);
  assert.equal(sender.fits(1), false);
  assert.equal(sender.send(refused), -1);
  assert.equal(refused.byteLength, 1);
  receiver.take(1);
  assert.equal(sender.send(refused), 2);
});

test('the bound of a transfer channel has bounds', () => {
  assert.throws(() => createTransferChannel(0), /channel bound/);
  assert.throws(() => createTransferChannel(2 ** 31), /channel bound/);
});
