// HTTP on the port of the peer links: two routes, and nothing that a stranger could keep or fill.
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { BODY_BYTES_MAX } from '../../src/base/limits.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { closed } from '../support/sockets.ts';
import { HOST, Waiter, makeCluster, makePeer } from './fixture.ts';
import type { Overrides, TestPeer } from './fixture.ts';

const STATE = '{"bits":0}';
const MIB = 1024 * 1024;

async function startPeer(
  t: TestContext,
  overrides: Overrides = {},
): Promise<TestPeer & { port: number; waiter: Waiter }> {
  const waiter = new Waiter();
  const peer = makePeer(t, waiter, 1, overrides);
  return { ...peer, port: await peer.peers.start(), waiter };
}

function dial(t: TestContext, port: number): Socket {
  const socket = connect({ host: HOST, port });
  socket.on('error', () => {});
  t.after(() => socket.destroy());
  return socket;
}

async function client(t: TestContext, port: number): Promise<RawClient> {
  const raw = await RawClient.connect(port);
  t.after(() => raw.destroy());
  return raw;
}

test('the shed state and the probe answer while peer links work', async (t) => {
  const waiter = new Waiter();
  const [one, two] = (await makeCluster(t, waiter, 2)) as [TestPeer, TestPeer];
  const port = one.peers.port;
  const state = await requestOnce(port, 'GET', '/__svc/leadership-shed?x=1');
  assert.deepEqual([state.status, state.body.toString()], [200, STATE]);
  assert.equal(state.headers.get('content-type'), 'application/json');
  const head = await requestOnce(port, 'HEAD', '/__svc/leadership-shed');
  assert.deepEqual([head.status, head.headers.get('content-length'), head.body.length], [200, '10', 0]);
  for (const size of [0, 1, 64 * 1024, BODY_BYTES_MAX]) {
    const probed = await requestOnce(port, 'POST', '/__svc/cluster-probe', {}, Buffer.alloc(size));
    assert.deepEqual([probed.status, probed.body.length], [200, 0], `${size} bytes`);
  }
  const cold = await requestOnce(port, 'POST', '/__svc/cold-probe');
  assert.equal(cold.status, 404, 'there is no cold store to probe');
  assert.equal(one.peers.counters().cluster_http_requests, 7);
  assert(one.peers.connected(2, 0) && two.peers.connected(1, 0));
  assert.deepEqual([...one.warnings(), ...two.warnings()], []);
});

test('one connection serves many requests, however its bytes are cut', async (t) => {
  const { port, peers } = await startPeer(t);
  const raw = await client(t, port);
  for (let i = 0; i < 3; i++) {
    assert.equal((await raw.request('POST', '/__svc/cluster-probe', {}, 'x'.repeat(1000))).status, 200);
    assert.equal((await raw.request('GET', '/__svc/leadership-shed')).status, 200);
  }
  assert.equal(peers.counters().cluster_http_connections, 1);
  const slow = dial(t, port).setNoDelay(true).setEncoding('utf8');
  const text = 'POST /__svc/cluster-probe HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc';
  const isClosed = closed(slow);
  let answer = '';
  slow.on('data', (chunk: string) => (answer += chunk));
  for (const char of text) {
    slow.write(char);
    // Another connection's answer: the character was read meanwhile.
    await requestOnce(port, 'GET', '/__svc/leadership-shed');
  }
  await isClosed;
  assert.match(answer, /^HTTP\/1\.1 200 OK\r\n/);
});

test('nothing else is reachable', async (t) => {
  const { port, warnings } = await startPeer(t);
  const cases: readonly (readonly [method: string, path: string, status: number, allow: string | undefined])[] = [
    ['GET', '/', 404, undefined],
    ['GET', '/__svc/metrics', 404, undefined],
    ['PUT', '/b/s', 404, undefined],
    ['POST', '/__svc/leadership-shed/maintenance', 404, undefined],
    ['GET', '/__svc/cluster-probe', 405, 'POST'],
    ['POST', '/__svc/leadership-shed', 405, 'GET, HEAD'],
    ['OPTIONS', '/__svc/cluster-probe', 405, 'POST'],
  ];
  for (const [method, path, status, allow] of cases) {
    const answer = await requestOnce(port, method, path);
    assert.deepEqual([answer.status, answer.headers.get('allow'), answer.body.length], [status, allow, 0], path);
  }
  assert.deepEqual(warnings(), []);
});

test('a probe beyond the bound is refused: declared before it comes, chunked when it passes', async (t) => {
  const { port } = await startPeer(t);
  const declared = await client(t, port);
  const head = (line: string): Buffer =>
    Buffer.from(`POST /__svc/cluster-probe HTTP/1.1\r\nHost: x\r\n${line}\r\n\r\n`);
  assert.equal((await declared.send(head(`Content-Length: ${BODY_BYTES_MAX + 1}`))).status, 413);
  await declared.closed;
  const chunked = await client(t, port);
  const answer = chunked.send(head('Transfer-Encoding: chunked'));
  const chunk = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(MIB), Buffer.from('\r\n')]);
  for (let i = 0; i < 33; i++) chunked.socket.write(chunk);
  assert.equal((await answer).status, 413);
  await chunked.closed;
});

test('what is no request after all, and requests that never end, are closed with one line each', async (t) => {
  const { port, peers, warnings, waiter } = await startPeer(t, { limits: { httpIdleMs: 50, logWindowMs: 0 } });
  const openings = [
    'GET \0\r\n\r\n',
    'POST /__svc/cluster-probe HTTP/1.1\r\nHost: x\r\nContent-Length: nine\r\n\r\n',
    `GET / HTTP/1.1\r\nX: ${'y'.repeat(20_000)}\r\n\r\n`,
    'GET /__svc/leadership-shed HTTP/1.1\r\nHost:',
    'POST /__svc/cluster-probe HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc',
    // It has been answered and stays.
    'GET /__svc/leadership-shed HTTP/1.1\r\nHost: x\r\n\r\n',
  ];
  for (const [i, text] of openings.entries()) {
    const socket = dial(t, port).resume();
    socket.write(text);
    await closed(socket);
    await waiter.until('a log line', () => warnings().length === i + 1);
  }
  assert(warnings().every(({ message }) => message === 'cluster-plane request refused'));
  assert.equal(peers.counters().cluster_http_connections, 0);
});

test('a crowd of connections displaces the one idle longest, never a peer that asks', async (t) => {
  const { port, peers, waiter } = await startPeer(t, { limits: { httpConnectionsMax: 4 } });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const ask = (): Promise<boolean> =>
    new Promise((resolve, reject) => {
      const asked = request({ host: HOST, port, agent, path: '/__svc/leadership-shed' }, (res) => {
        res.resume().on('end', () => resolve(asked.reusedSocket));
      });
      asked.on('error', reject).end();
    });
  assert.equal(await ask(), false);
  for (let i = 0; i < 12; i++) {
    dial(t, port).resume().write('GET /__svc/leadership-shed HTTP/1.1\r\n');
    await waiter.until('the connection', () => peers.counters().cluster_http_connections === Math.min(i + 2, 4));
    assert.equal(await ask(), true, `after ${i + 1} others`);
  }
});
