// A long-poll while its answer is compressed. The pool's result needs a turn of the event loop, so
// everything that a test does before it awaits comes in between.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { ReadParams } from '../../../src/http/context.ts';
import { startLongPoll } from '../../../src/http/live/long-poll.ts';
import { READ_OFFSET } from '../../../src/protocol/read-fields.ts';
import { FakeResponse } from './fake-response.ts';
import { type LiveServer, beginCall, newCalls, startLive } from './harness.ts';

const KEY = 'b/s';
const RECORD = JSON.stringify('the same again '.repeat(2000));
const PARAMS: ReadParams = {
  mode: READ_OFFSET,
  value: 0,
  maxBytes: 0,
  maxRecords: 0,
  readFlags: 0,
  live: 'long-poll',
  timeoutMs: 30_000,
  cursor: undefined,
  ifNoneMatch: '',
};

interface Packing {
  readonly server: LiveServer;
  readonly response: FakeResponse;
  /** Resolves when nothing is compressed any more. */
  settled(): Promise<void>;
}

/** A long-poll that has waited, and whose bytes are being compressed now. */
async function packing(t: TestContext): Promise<Packing> {
  const server = await startLive(t);
  const { node, gateway } = server;
  gateway.manual = true;
  gateway.create(KEY, 'application/json');
  const response = new FakeResponse();
  const call = beginCall(newCalls(node), { res: response.res, stream: 's' });
  call.headers.take('accept-encoding', 'gzip');
  startLongPoll(call, PARAMS);
  gateway.pump();
  assert.equal(node.live.memberCount, 1);
  gateway.append(KEY, RECORD);
  gateway.pump();
  assert(node.compression.usedBytes > 0, 'it is being compressed');
  assert.equal(response.status, '');
  const settled = async (): Promise<void> => {
    while (node.compression.usedBytes > 0) await new Promise((resolve) => setImmediate(resolve));
  };
  return { server, response, settled };
}

test('what happens to the stream meanwhile changes nothing', async (t) => {
  const { server, response, settled } = await packing(t);
  server.gateway.append(KEY, '1');
  server.gateway.pump();
  server.advance(60_000);
  server.gateway.remove(KEY);
  server.gateway.pump();
  assert.equal(response.status, '');
  await settled();
  assert.equal(response.status, '200 OK');
  assert.equal(response.headers.get('content-encoding'), 'gzip');
  assert.equal(gunzipSync(Buffer.concat(response.sent)).toString(), `[${RECORD}]`);
});

test('when the node stops it is told to come back, and the result is dropped', async (t) => {
  const { server, response, settled } = await packing(t);
  server.node.live.stop();
  assert.equal(response.status, '204 No Content');
  assert.equal(response.headers.get('stream-next-offset'), '0'.repeat(20));
  await settled();
  assert.deepEqual(response.sent, []);
});

test('a client that leaves is forgotten at once', async (t) => {
  const { server, response, settled } = await packing(t);
  response.abort();
  assert.equal(server.node.live.memberCount, 0);
  await settled();
  assert.equal(response.status, '');
});
