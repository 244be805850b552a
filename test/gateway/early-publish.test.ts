// When the shard sees requests: at the end of a turn of the event loop, and earlier when it sleeps and many wait.
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import { Gateway } from '../../src/gateway/gateway.ts';
import { CONTROL_WORDS, READER_PARKED } from '../../src/mailbox/layout.ts';
import { RingReader, RingWriter, createRing } from '../../src/mailbox/ring.ts';
import { TransferReceiver, TransferSender, createTransferChannel } from '../../src/mailbox/transfer-channel.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import { requestFor } from '../../src/protocol/request.ts';

const RING_BYTES = 64 * 1024;
const EARLY = 24;

/** A gateway with one shard that the test plays. */
function fixture() {
  const requestSab = createRing(RING_BYTES);
  const replySab = createRing(RING_BYTES);
  const out = createTransferChannel(RING_BYTES);
  const into = createTransferChannel(RING_BYTES);
  const gateway = new Gateway(
    1,
    [
      {
        requests: new RingWriter(requestSab),
        requestSab,
        requestTransfers: new TransferSender(out.sendPort, out.shared),
        replies: new RingReader(replySab),
        replyTransfers: new TransferReceiver(into.receivePort, into.shared),
      },
    ],
    (error) => assert.fail(String(error)),
  );
  const control = new Int32Array(requestSab, 0, CONTROL_WORDS);
  return {
    shard: new RingReader(requestSab),
    send: (count: number) => {
      for (let i = 0; i < count; i++) {
        const request = requestFor(QUERIES.unwatch, 0, { topic: i });
        assert(gateway.send(request, { onReply: () => undefined }));
      }
    },
    park: () => Atomics.store(control, READER_PARKED, 1),
    isParked: () => Atomics.load(control, READER_PARKED) === 1,
    close: () => {
      gateway.close();
      for (const port of [out.sendPort, out.receivePort, into.sendPort, into.receivePort]) port.close();
    },
  };
}

test('a shard that sleeps is woken by the requests that make a turn worth it, and by fewer at the end of the turn', async () => {
  const { shard, send, park, isParked, close } = fixture();
  park();
  send(EARLY - 1);
  assert.deepEqual([shard.depth, isParked()], [0, true]);
  send(1);
  assert.deepEqual([shard.depth, isParked()], [EARLY, false]);

  // It works on those now: the others wait for the end of the turn, however many they are.
  send(3 * EARLY);
  assert.equal(shard.depth, EARLY);
  park();
  send(1);
  assert.deepEqual([shard.depth, isParked()], [4 * EARLY + 1, false], 'asleep again within the same turn');

  park();
  send(1);
  assert.deepEqual([shard.depth, isParked()], [4 * EARLY + 1, true]);
  await turn();
  assert.deepEqual([shard.depth, isParked()], [4 * EARLY + 2, false]);
  close();
});

test('a shard that works sees the requests of a turn together', async () => {
  const { shard, send, close } = fixture();
  send(10 * EARLY);
  assert.equal(shard.depth, 0);
  await turn();
  assert.equal(shard.depth, 10 * EARLY);
  close();
});
