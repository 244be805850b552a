// The client that load tests rely on: pipelined answers come in order, in pieces of any size.
import assert from 'node:assert/strict';
import { createServer, type AddressInfo } from 'node:net';
import { test } from 'node:test';
import { ConnectionLost, RawClient } from './raw-client.ts';

/** Sends `script` in groups of `step` bytes, ignoring the request, and then ends the connection. */
async function withCannedServer(script: string, step: number, body: (port: number) => Promise<void>): Promise<void> {
  const server = createServer((socket) => {
    socket.once('data', () => {
      for (let at = 0; at < script.length; at += step) socket.write(script.slice(at, at + step), 'latin1');
      socket.end();
    });
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await body((server.address() as AddressInfo).port);
  } finally {
    server.close();
  }
}

test('pipelined answers of every framing are matched to their requests', async () => {
  const script =
    'HTTP/1.1 100 Continue\r\n\r\n' +
    'HTTP/1.1 204 No Content\r\nA: 1\r\na: 2\r\n\r\n' +
    'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc' +
    'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n' +
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n' +
    'HTTP/1.1 200 OK\r\n\r\nuntil the end';
  for (const step of [1, 7, 10_000]) {
    await withCannedServer(script, step, async (port) => {
      const client = await RawClient.connect(port);
      const answers = ['GET', 'GET', 'HEAD', 'GET', 'GET', 'GET'].map((method) => client.request(method, '/'));
      const lost = assert.rejects(answers[5] as Promise<unknown>, ConnectionLost);
      const [first, ...others] = await Promise.all(answers.slice(0, 5));
      assert.equal(first?.status, 204);
      assert.equal(first?.headers.get('a'), '1, 2');
      assert.deepEqual(
        others.map((answer) => answer.body.toString()),
        ['abc', '', 'abcde', 'until the end'],
      );
      await lost;
      await client.closed;
    });
  }
});
