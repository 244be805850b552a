// Answers on their way from a shard to the main thread, through a real ring and a real transfer channel.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { INLINE_PAYLOAD_BYTES_MAX } from '../../src/base/limits.ts';
import { RingReader, RingWriter, createRing } from '../../src/mailbox/ring.ts';
import { TransferReceiver, TransferSender, createTransferChannel } from '../../src/mailbox/transfer-channel.ts';
import { Waker } from '../../src/mailbox/wake.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { RingSink } from '../../src/shard/sink.ts';
import { TracedSlots } from '../../src/shard/traced-slots.ts';
import { RingReplies } from '../../workers/ring-ports.ts';
import { sameBytes } from '../support/same-bytes.ts';

const LARGE = INLINE_PAYLOAD_BYTES_MAX;

test('an answer above the bound of the ring arrives whole, whatever memory its body is a part of', (t) => {
  const ring = createRing(4 * LARGE);
  const { sendPort, receivePort, shared } = createTransferChannel(16 * LARGE);
  t.after(() => sendPort.close());
  const replies = new RingReplies(new RingWriter(ring), new Waker(ring), new TransferSender(sendPort, shared));
  const sink = new RingSink(replies, new TracedSlots(1, () => 0));
  const reader = new RingReader(ring);
  const transfers = new TransferReceiver(receivePort, shared);
  const received = (): Reply => {
    replies.publish();
    assert(reader.next());
    const reply = new Reply();
    reply.read(reader.bytes, reader.view, reader.offset);
    if (reply.transferId !== 0) reply.body = new Uint8Array(transfers.take(reply.transferId));
    return reply;
  };
  const bytes = new Uint8Array(LARGE).fill(7);
  const slice = { offset: 1, incarnation: 2, size: LARGE, digest: 'd', bytes };
  const small = { ...slice, bytes: Uint8Array.of(1) };
  const reply = new Reply();
  for (const expected of [small, slice, small, slice, small]) {
    reply.reset(1);
    QUERIES.snapshot.result.write(reply, expected);
    sink.send(reply);
    const read = QUERIES.snapshot.result.read(received());
    assert.deepEqual({ ...read, bytes: Uint8Array.from(read.bytes) }, expected);
  }
  // Bytes of the store and of messages may come as a Buffer, whose slice() copies nothing.
  const pool = Buffer.alloc(3 * LARGE, 5);
  const parts = [pool.subarray(LARGE - 1, 2 * LARGE), new Uint8Array(pool.buffer, 1, LARGE + 1)];
  for (const body of [...parts, new Uint8Array(new SharedArrayBuffer(LARGE + 1)).fill(5)]) {
    reply.reset(1);
    reply.body = body;
    sink.send(reply);
    sameBytes(received().body, new Uint8Array(LARGE + 1).fill(5));
    assert.equal(pool.length, 3 * LARGE, 'the memory that it is a part of stays here');
  }
});
