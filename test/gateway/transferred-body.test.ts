// Bodies above the bound of the request ring.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { INLINE_PAYLOAD_BYTES_MAX, JSON_POOLED_BYTES_MAX } from '../../src/base/limits.ts';
import { Gateway } from '../../src/gateway/gateway.ts';
import { RingReader, RingWriter, createRing } from '../../src/mailbox/ring.ts';
import { TransferReceiver, TransferSender, createTransferChannel } from '../../src/mailbox/transfer-channel.ts';
import { errorCode } from '../../src/base/errors.ts';
import type { CheckedBody, JsonTask } from '../../src/gateway/json-bodies.ts';
import { BODY_AS_SENT, BODY_RECORDS } from '../../src/protocol/checked-body.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { REQUEST_HEAD_BYTES, type Request, beginCommand, bodyMark, newRequest } from '../../src/protocol/request.ts';
import { sameBytes } from '../support/same-bytes.ts';

const LARGE = INLINE_PAYLOAD_BYTES_MAX + 1;

interface Scene {
  readonly gateway: Gateway;
  readonly requests: RingReader;
  readonly received: TransferReceiver;
}

function scene(t: TestContext, onError: (error: unknown) => void): Scene {
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
    onError,
  );
  t.after(() => {
    gateway.close();
    for (const port of [out.sendPort, out.receivePort, into.sendPort, into.receivePort]) port.close();
  });
  const received = new TransferReceiver(out.receivePort, out.shared);
  return { gateway, requests: new RingReader(requestSab), received };
}

test('a body that is moved to a shard leaves the memory that it was a part of to the sender', (t) => {
  const { gateway, received } = scene(t, (error) => assert.fail(String(error)));
  const pool = Buffer.alloc(3 * LARGE, 5);
  // The second one is a Buffer, whose slice() copies nothing.
  const payloads = [new Uint8Array(pool.buffer, pool.byteOffset + 1, LARGE), pool.subarray(LARGE, 2 * LARGE)];
  for (const [i, payload] of payloads.entries()) {
    const request = newRequest();
    beginCommand(request, COMMANDS.append, { group: 0, bucket: 'b', stream: 's' }).payload = payload;
    assert(gateway.send(request, { onReply: () => undefined }));
    sameBytes(new Uint8Array(received.take(i + 1)), new Uint8Array(LARGE).fill(5));
    assert.equal(pool.length, 3 * LARGE);
  }
});

test('a body that came in chunks is moved as it is, unless it is refused', (t) => {
  const { gateway, received } = scene(t, (error) => assert.fail(String(error)));
  const body = (): Uint8Array => {
    // As in http/body.ts: the compiler's library does not know resizable buffers.
    const buffer = Reflect.construct(ArrayBuffer, [LARGE, { maxByteLength: 2 * LARGE }]) as ArrayBuffer;
    return new Uint8Array(buffer, 0, LARGE).fill(7);
  };
  const request = newRequest();
  const command = beginCommand(request, COMMANDS.append, { group: 0, bucket: 'b', stream: 's' });
  for (let id = 1; id <= 4; id++) {
    const payload = body();
    command.payload = payload;
    assert(gateway.send(request, { onReply: () => undefined }) && payload.buffer.byteLength === 0);
  }
  const payload = body();
  command.payload = payload;
  assert(!gateway.send(request, { onReply: () => undefined }), 'the channel is full');
  sameBytes(payload, new Uint8Array(LARGE).fill(7));
  sameBytes(new Uint8Array(received.take(1)), payload);
});

function jsonAppend(bytes: number): Request {
  const request = newRequest();
  const command = beginCommand(request, COMMANDS.append, { group: 0, bucket: 'b', stream: 's' });
  command.contentType = 'application/json; charset=utf-8';
  command.payload = Buffer.alloc(bytes, ' ').fill('[1]', 0, 3);
  return request;
}

test('large JSON bodies go to the pool, and what it says to the shard; a pool that fails is 503', async (t) => {
  const errors: unknown[] = [];
  const { gateway, requests, received } = scene(t, (error) => errors.push(error));
  const tasks: { task: JsonTask; done: (checked: CheckedBody) => void; fail: (error: unknown) => void }[] = [];
  gateway.useJsonPool((task) => new Promise((done, fail) => tasks.push({ task, done, fail })));
  const codes: string[] = [];
  const handler = { onReply: (reply: Reply) => codes.push(errorCode(reply.code)) };
  assert(gateway.send(jsonAppend(1000), handler));
  assert.equal(tasks.length, 0, 'a small one is left to the shard');
  assert(gateway.send(jsonAppend(LARGE), handler) && gateway.send(jsonAppend(LARGE), handler));
  assert.deepEqual([tasks.length, gateway.pending], [2, 3]);
  assert.equal(tasks[0]?.task.body.byteLength, LARGE);
  const lines = new Uint8Array(LARGE).fill(0x31);
  tasks[0]?.done({ mark: BODY_RECORDS, payload: lines.buffer });
  tasks[1]?.fail(new Error('no threads'));
  await new Promise(setImmediate);
  assert.deepEqual([codes, errors.length], [['SHARD_BUSY'], 1]);
  assert(requests.next());
  assert.equal(bodyMark(requests.view, requests.offset + REQUEST_HEAD_BYTES), BODY_AS_SENT);
  assert(requests.next());
  assert.equal(bodyMark(requests.view, requests.offset + REQUEST_HEAD_BYTES), BODY_RECORDS);
  assert.equal(received.take(1).byteLength, LARGE);

  let taken = 0;
  while (gateway.send(jsonAppend(16 * 1024 * 1024), handler)) taken++;
  assert.equal(taken, JSON_POOLED_BYTES_MAX / (16 * 1024 * 1024));
  gateway.close();
  const count = (wanted: string): number => codes.filter((code) => code === wanted).length;
  assert.equal(count('STOPPING'), taken, 'the shards never saw these');
  assert.equal(count('OUTCOME_UNKNOWN'), 2);
});
