// The client over HTTP before servers that are no node, or do as one does that stops or has no stream yet.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { WebSocketConstructor } from '../../src/client/channel.ts';
import { connect } from '../../src/client/client.ts';
import { PATIENCE_MS, until } from '../support/until.ts';
import { codeOf } from './answers.ts';
import { NoSocket } from './no-socket.ts';

test('a proxy without its node, and a page that is no node, are not believed', async () => {
  const answers = [503, 200, 200];
  const fake = createServer((_request, response) => {
    response.writeHead(answers.shift() ?? 404, { 'content-type': 'text/html' }).end('<html>');
  });
  await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve));
  const { port } = fake.address() as AddressInfo;
  const client = connect(`http://127.0.0.1:${port}`, { WebSocket: NoSocket });
  assert.equal(await codeOf(client.stream('b', 's').head()), '404 NO_NODE');
  assert.equal(answers.length, 0);
  client.close();
  fake.close();
  fake.closeAllConnections();
});

test('a page in place of a node is the answer to no request', async () => {
  const asked: string[] = [];
  const fake = createServer((request, response) => {
    request.resume();
    const { method = '', url } = request;
    if (url === '/__svc/session') return response.writeHead(426, { 'millrace-error': 'UPGRADE_REQUIRED' }).end();
    const isPage = !asked.includes(method);
    asked.push(method);
    if (isPage) return response.writeHead(200, { 'content-type': 'text/html' }).end('<html>');
    if (method === 'DELETE') return response.writeHead(204).end();
    return response.writeHead(200, { 'content-type': 'text/plain', 'stream-next-offset': '7' }).end();
  });
  await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve));
  const client = connect(`http://127.0.0.1:${(fake.address() as AddressInfo).port}`, { WebSocket: NoSocket });
  const stream = client.stream('b', 's');
  assert.deepEqual([(await stream.head()).offset, await stream.append('x')], [7, 7]);
  await stream.delete();
  assert.deepEqual(asked, ['HEAD', 'HEAD', 'HEAD', 'POST', 'POST', 'DELETE', 'DELETE']);
  client.close();
  fake.close().closeAllConnections();
});

test('a follower that awaits a stream over HTTP goes on in a session once there is one, too', async (t) => {
  let asked = 0;
  let sockets = 0;
  const fake = createServer(({ url }, response) => {
    const isProbe = url === '/__svc/session';
    if (!isProbe) asked++;
    response
      .writeHead(isProbe ? 426 : 404, { 'millrace-error': isProbe ? 'UPGRADE_REQUIRED' : 'STREAM_NOT_FOUND' })
      .end();
  });
  await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve));
  const counted = new Proxy(NoSocket, {
    construct: (_, [url, protocols]: ConstructorParameters<WebSocketConstructor>) =>
      sockets++ < 9 ? new NoSocket(url, protocols) : assert.fail('it is tried again and again'),
  });
  const client = connect(`http://127.0.0.1:${(fake.address() as AddressInfo).port}`, { WebSocket: counted });
  const first = codeOf(client.stream('b', 's').follow({ wait: 'create' }).next());
  await until('a question', () => asked > 0);
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + 61_000);
  await until('another socket', () => sockets === 2);
  client.close();
  assert.equal(await first, '0 CLIENT_CLOSED');
  fake.close().closeAllConnections();
});

test('over HTTP too, a node that stops is left for another one at once', async (t) => {
  const asked: string[] = [];
  const nodes = ['a', 'b'].map((name) =>
    createServer((incoming, response) => {
      incoming.resume();
      if (incoming.url === '/__svc/session')
        return response.writeHead(426, { 'millrace-error': 'UPGRADE_REQUIRED' }).end();
      const isStopping = [name, undefined].includes(asked[0]);
      asked.push(name);
      if (isStopping) return response.writeHead(503, { 'millrace-error': 'STOPPING', 'retry-after': '1' }).end();
      return response.writeHead(200, { 'content-type': 'text/plain', 'stream-next-offset': '7' }).end();
    }),
  );
  for (const node of nodes) await new Promise<void>((resolve) => node.listen(0, '127.0.0.1', resolve));
  const urls = nodes.map((node) => `http://127.0.0.1:${(node.address() as AddressInfo).port}`);
  const client = connect(urls, { WebSocket: NoSocket });
  t.after(() => {
    client.close();
    for (const node of nodes) node.close().closeAllConnections();
  });
  const { offset } = await client.stream('b', 's').head({ signal: AbortSignal.timeout(PATIENCE_MS) });
  assert.equal(offset, 7);
  assert.equal(asked.length, 2, asked.join(' '));
});
