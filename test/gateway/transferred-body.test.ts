// Bodies above the bound of the request ring.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { INLINE_PAYLOAD_BYTES_MAX } from '../../src/base/limits.ts';
import { Gateway } from '../../src/gateway/gateway.ts';
import { RingReader, RingWriter, createRing } from '../../src/mailbox/ring.ts';
import { TransferReceiver, TransferSender, createTransferChannel } from '../../src/mailbox/transfer-channel.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { beginCommand, newRequest } from '../../src/protocol/request.ts';

const LARGE = INLINE_PAYLOAD_BYTES_MAX + 1;

test('a body that is moved to a shard leaves the memory that it was a part of to the sender', (t) => {
  const requestSab = createRing(4 * INLINE_PAYLOAD_BYTES_MAX);
  const out = createTransferChannel(4 * LARGE);
  const into = createTransferChannel(1024);
  const gateway = new Gateway(
    1,
    [
      {
        requests: new RingWriter(requestSab),
        requestSab,
        requestTransfers: new TransferSender(out.sendPort, out.shared),
        replies: new RingReader(createRing(64 * 1024)),
        replyTransfers: new TransferReceiver(into.receivePort, into.shared),
      },
    ],
    (error) => assert.fail(String(error)),
  );
  t.after(() => {
    gateway.close();
    for (const port of [out.sendPort, out.receivePort, into.sendPort, into.receivePort]) port.close();
  });
  const received = new TransferReceiver(out.receivePort, out.shared);
  const pool = Buffer.alloc(3 * LARGE, 5);
  // The second one is a Buffer, whose slice() copies nothing.
  const payloads = [new Uint8Array(pool.buffer, pool.byteOffset + 1, LARGE), pool.subarray(LARGE, 2 * LARGE)];
  for (const [i, payload] of payloads.entries()) {
    const request = newRequest();
    beginCommand(request, COMMANDS.append, { group: 0, bucket: 'b', stream: 's' }).payload = payload;
    assert(gateway.send(request, { onReply: () => undefined }));
    assert.deepEqual(new Uint8Array(received.take(i + 1)), new Uint8Array(LARGE).fill(5));
    assert.equal(pool.length, 3 * LARGE);
  }
});
