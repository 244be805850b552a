// Answers to appends as they are on the wire: status line and headers are written as bytes that all appends share.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { REPLY_PRODUCER, type Reply } from '../../src/protocol/reply.ts';
import { startPlanes } from './planes.ts';

const STATIC = [
  'x-content-type-options: nosniff',
  'cross-origin-resource-policy: cross-origin',
  'cache-control: no-store',
  'access-control-allow-origin: *',
];
const POST = 'POST /b/s HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Length: 1\r\n\r\nx';

/** Those of one connection, one after the other, up to the headers that the library adds. */
async function heads(port: number, count: number): Promise<string[]> {
  const socket = connect(port, '127.0.0.1');
  const answers: string[] = [];
  let received = '';
  while (answers.length < count) {
    socket.write(POST);
    while (!received.includes('\r\n\r\n')) {
      const [chunk] = (await once(socket, 'data')) as [Buffer];
      received += chunk.toString('latin1');
    }
    const at = received.indexOf('\r\nDate: ');
    answers.push(received.slice(0, at));
    received = received.slice(received.indexOf('\r\n\r\n') + 4);
  }
  socket.destroy();
  return answers;
}

test('each answer has its own position behind the same lines', async (t) => {
  const { gateway, port } = await startPlanes(t);
  const offsets = [7, 2 ** 53 - 1, 0, 4_294_967_296, 12];
  let next = 0;
  gateway.script = (_, reply) => {
    reply.nextOffset = offsets[next++ % offsets.length] ?? 0;
  };
  const expected = offsets.map((offset) =>
    ['HTTP/1.1 204 No Content', ...STATIC, `stream-next-offset: ${String(offset).padStart(20, '0')}`].join('\r\n'),
  );
  assert.deepEqual(await heads(port, offsets.length), expected);
});

test("a producer's append is 200 with its echo behind the position", async (t) => {
  const { gateway, port } = await startPlanes(t);
  gateway.script = (_, reply: Reply) => {
    reply.nextOffset = 5;
    reply.flags = REPLY_PRODUCER;
  };
  const position = 'stream-next-offset: 00000000000000000005';
  const lines = ['HTTP/1.1 200 OK', ...STATIC, position, 'producer-epoch: 0', 'producer-seq: 0'];
  assert.deepEqual(await heads(port, 1), [lines.join('\r\n')]);
});
