// Bounds, origins, tokens, clients that leave, handlers that throw, and the end of the planes.
import { QUERIES } from '../../src/protocol/operations.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BODY_BYTES_MAX } from '../../src/base/limits.ts';
import { ListenError } from '../../src/http/listener.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { startPlanes } from './planes.ts';

const TYPE = { 'content-type': 'a/b' };
const head = (lines: string[]): Buffer =>
  Buffer.from(`${['POST /b/s HTTP/1.1', 'Host: x', 'Content-Type: a/b', ...lines].join('\r\n')}\r\n\r\n`);

test('a body that is declared too large is refused before it comes', async (t) => {
  const { gateway, port } = await startPlanes(t);
  const raw = await RawClient.connect(port);
  t.after(() => raw.destroy());
  const response = await raw.send(head([`Content-Length: ${BODY_BYTES_MAX + 1}`]));
  assert.equal(response.status, 413);
  assert.equal(gateway.asked.length, 0);
});

test('a body of exactly the limit is taken', async (t) => {
  const { gateway, client } = await startPlanes(t);
  const response = await fetch(`${client}/b/s`, { method: 'POST', headers: TYPE, body: Buffer.alloc(BODY_BYTES_MAX) });
  assert.deepEqual([response.status, gateway.last.payload?.length], [204, BODY_BYTES_MAX]);
});

test('a chunked body is refused as soon as it passes the limit', async (t) => {
  const { gateway, port } = await startPlanes(t);
  const raw = await RawClient.connect(port);
  t.after(() => raw.destroy());
  const chunk = Buffer.alloc(1024 * 1024);
  const answer = raw.send(head(['Transfer-Encoding: chunked']));
  for (let i = 0; i < 33; i++) raw.socket.write(Buffer.concat([Buffer.from('100000\r\n'), chunk, Buffer.from('\r\n')]));
  assert.equal((await answer).status, 413);
  assert.equal(gateway.asked.length, 0);
});

test('a probe takes as much as any body, and refuses more', async (t) => {
  const { gateway, client, port } = await startPlanes(t);
  const most = await fetch(`${client}/__svc/cluster-probe`, { method: 'POST', body: Buffer.alloc(BODY_BYTES_MAX) });
  assert.deepEqual([most.status, await most.text()], [200, '']);
  const probe = (line: string): Buffer =>
    Buffer.from(`POST /__svc/cluster-probe HTTP/1.1\r\nHost: x\r\n${line}\r\n\r\n`);
  const declared = await RawClient.connect(port);
  t.after(() => declared.destroy());
  assert.equal((await declared.send(probe(`Content-Length: ${BODY_BYTES_MAX + 1}`))).status, 413);
  const chunked = await RawClient.connect(port);
  t.after(() => chunked.destroy());
  const chunk = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(1024 * 1024), Buffer.from('\r\n')]);
  const answer = chunked.send(probe('Transfer-Encoding: chunked'));
  for (let i = 0; i < 33; i++) chunked.socket.write(chunk);
  assert.equal((await answer).status, 413);
  assert.equal(gateway.asked.length, 0);
});

test('bodies in flight share a budget, which is given back by answers and by aborts', async (t) => {
  const { gateway, port, client } = await startPlanes(t, { inflightBodyBytes: 1000 });
  const half = await RawClient.connect(port);
  half.socket.write(Buffer.concat([head(['Content-Length: 601']), Buffer.alloc(600)]));
  // Its head has been read when a request on another connection is answered afterwards.
  assert.equal((await requestOnce(port, 'POST', '/b/s', TYPE, 'x'.repeat(400))).status, 204);
  const refused = await fetch(`${client}/b/s`, { method: 'POST', headers: TYPE, body: 'x'.repeat(401) });
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '1']);
  assert.equal(refused.headers.get('content-type'), 'application/json');
  assert.equal(await refused.text(), '{"error":"IngressBodyBytesLimitReached"}');
  half.destroy();
  const whole = { method: 'POST', headers: TYPE, body: 'x'.repeat(1000) };
  // The server sees the end of the other connection with some later turn of its loop.
  while ((await fetch(`${client}/b/s`, whole)).status === 503);
  gateway.script = () => false;
  const arrived = gateway.nextRequest();
  const waiting = fetch(`${client}/b/s`, { method: 'POST', headers: TYPE, body: 'x'.repeat(900) });
  await arrived;
  assert.equal((await fetch(`${client}/b/s`, { method: 'POST', headers: TYPE, body: 'x'.repeat(200) })).status, 503);
  gateway.release();
  assert.equal((await waiting).status, 204);
  gateway.script = () => {};
  assert.equal((await fetch(`${client}/b/s`, { method: 'POST', headers: TYPE, body: 'x'.repeat(1000) })).status, 204);
});

test('a client that leaves is forgotten, and the late reply is dropped', async (t) => {
  const { gateway, port, planes, client } = await startPlanes(t);
  gateway.script = () => false;
  for (const path of ['/b/s', '/b/s?offset=0']) {
    const raw = await RawClient.connect(port);
    const arrived = gateway.nextRequest();
    const lost = assert.rejects(raw.request(path === '/b/s' ? 'POST' : 'GET', path, TYPE, path === '/b/s' ? 'x' : ''));
    await arrived;
    raw.destroy();
    await lost;
  }
  gateway.script = () => {};
  assert.equal((await fetch(`${client}/b/s`)).status, 200);
  assert.equal(gateway.heldCount, 2);
  gateway.release();
  assert.equal(planes.openRequests(), 0);
  assert.equal((await fetch(`${client}/b/s`, { method: 'POST', headers: TYPE, body: 'x' })).status, 204);
});

test('a half-sent body that is cut off leaves nothing behind', async (t) => {
  const { gateway, port, planes, client } = await startPlanes(t, { inflightBodyBytes: 1000 });
  const raw = await RawClient.connect(port);
  raw.socket.write(Buffer.concat([head(['Content-Length: 1000']), Buffer.alloc(10)]));
  assert.equal((await fetch(`${client}/b/s`)).status, 200);
  raw.destroy();
  const whole = { method: 'POST', headers: TYPE, body: 'x'.repeat(1000) };
  let response = await fetch(`${client}/b/s`, whole);
  while (response.status === 503) response = await fetch(`${client}/b/s`, whole);
  assert.deepEqual([response.status, planes.openRequests()], [204, 0]);
  assert.equal(gateway.last.payload?.length, 1000);
});

test('preflight and origins', async (t) => {
  const { client, gateway } = await startPlanes(t, { corsOrigins: ['https://a.example'] });
  const ask = async (origin: string): Promise<Response> =>
    fetch(`${client}/b/s`, { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'PUT' } });
  const allowed = await ask('https://a.example');
  assert.equal(allowed.status, 204);
  assert.equal(allowed.headers.get('access-control-allow-origin'), 'https://a.example');
  assert.match(allowed.headers.get('access-control-allow-headers') ?? '', /If-None-Match/);
  assert.match(allowed.headers.get('access-control-allow-methods') ?? '', /DELETE/);
  assert.equal(allowed.headers.get('access-control-max-age'), '86400');
  const refused = await ask('https://b.example');
  assert.deepEqual([refused.status, refused.headers.get('access-control-allow-origin')], [204, null]);
  const read = await fetch(`${client}/b/s`, { headers: { origin: 'https://a.example' } });
  assert.match(read.headers.get('access-control-expose-headers') ?? '', /Stream-Next-Offset.*X-Request-Id/);
  assert.equal(read.headers.get('vary'), 'Origin');
  assert.equal(gateway.asked.length, 1);
});

test('errors carry CORS and security headers too', async (t) => {
  const { client } = await startPlanes(t);
  const response = await fetch(`${client}/b/%00`, { headers: { origin: 'https://a.example' } });
  assert.equal(response.status, 400);
  assert.equal(response.headers.get('access-control-allow-origin'), '*');
  assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(response.headers.get('cross-origin-resource-policy'), 'cross-origin');
  assert.equal(response.headers.get('cache-control'), 'no-store');
});

test('tokens on each plane', async (t) => {
  const { client, admin } = await startPlanes(t, { clientToken: 'one', adminToken: 'two' });
  for (const [url, token] of [
    [`${client}/b`, 'one'],
    [`${admin}/__svc/leadership-shed`, 'two'],
  ] as const) {
    const method = url.endsWith('/b') ? 'PUT' : 'GET';
    const refused = await fetch(url, { method });
    assert.deepEqual([refused.status, refused.headers.get('www-authenticate')], [401, 'Bearer']);
    assert.equal((await fetch(url, { method, headers: { authorization: 'Bearer three' } })).status, 401);
    assert((await fetch(url, { method, headers: { authorization: `Bearer ${token}` } })).ok);
  }
  assert.equal(
    (await fetch(`${client}/b`, { method: 'OPTIONS' })).status,
    204,
    'browsers send no token with a preflight',
  );
});

test('a handler that throws answers 500 and is reported', async (t) => {
  const { client, gateway, errors, planes } = await startPlanes(t);
  const groupOf = gateway.groupOf.bind(gateway);
  gateway.groupOf = () => {
    throw new Error('planted');
  };
  for (const method of ['GET', 'HEAD', 'DELETE', 'POST', 'PUT']) {
    const body = method === 'POST' || method === 'PUT' ? { body: 'x' } : {};
    assert.equal((await fetch(`${client}/b/s`, { method, headers: TYPE, ...body })).status, 500, method);
  }
  assert.equal(errors.splice(0).length, 5);
  assert.equal(planes.openRequests(), 0);
  gateway.groupOf = groupOf;
  assert.equal((await fetch(`${client}/b/s`, { method: 'POST', headers: TYPE, body: 'x' })).status, 204);
});

test('a reply that cannot be rendered cuts the connection and is reported', async (t) => {
  const { client, gateway, errors, planes } = await startPlanes(t);
  gateway.script = (_asked, reply) => {
    reply.nextOffset = -5;
  };
  await assert.rejects(fetch(`${client}/b/s`, { method: 'POST', headers: TYPE, body: 'x' }));
  assert.equal(errors.splice(0).length, 1);
  assert.equal(planes.openRequests(), 0);
});

test('a port that is taken is an error', async (t) => {
  const { planes, port } = await startPlanes(t);
  await assert.rejects(planes.listenClient('127.0.0.1', port), ListenError);
});

test('closing finishes accepted requests, refuses new ones and frees the port', async (t) => {
  const { planes, gateway, client, port } = await startPlanes(t);
  gateway.script = () => false;
  const kept = await RawClient.connect(port);
  t.after(() => kept.destroy());
  assert.equal((await kept.request('PUT', '/b')).status, 201);
  const arrived = gateway.nextRequest();
  const accepted = fetch(`${client}/b/s`, { method: 'POST', headers: TYPE, body: 'x' });
  await arrived;
  const closed = planes.close(10_000);
  assert.equal((await kept.request('POST', '/b/s', TYPE, 'x')).status, 503);
  await assert.rejects(RawClient.connect(port));
  gateway.release();
  assert.equal((await accepted).status, 204);
  await closed;
  await kept.closed;
});

test('closing does not wait longer than it may', async (t) => {
  const { planes, gateway, client } = await startPlanes(t);
  gateway.script = () => false;
  const arrived = gateway.nextRequest();
  const lost = assert.rejects(fetch(`${client}/b/s`));
  await arrived;
  await planes.close(1);
  await lost;
  gateway.release();
});

test('a client that does not read costs what is counted, and gets every byte when it does', async (t) => {
  const { gateway, port, client, admin } = await startPlanes(t);
  const waiting = async (): Promise<number> => {
    const metrics = (await (await fetch(`${admin}/__svc/metrics`)).json()) as { http_unsent_answer_bytes: number };
    return metrics.http_unsent_answer_bytes;
  };
  const body = Buffer.alloc(24 * 1024 * 1024, 'abcdefg');
  gateway.script = (asked, reply) => {
    if (asked.stream === 'large') reply.body = body;
    else if (asked.op === QUERIES.status.number) QUERIES.status.result.write(reply, {});
  };
  const slow = await RawClient.connect(port);
  slow.socket.pause();
  const answer = slow.request('GET', '/b/large');
  while ((await waiting()) === 0);
  slow.socket.resume();
  assert.ok((await answer).body.equals(body));
  assert.equal(await waiting(), 0);

  // Enough of them, and reads bring less; beyond the bound they are cut or refused.
  const others: RawClient[] = [];
  const outcomes: Promise<unknown>[] = [];
  let seen = 0;
  for (let i = 0; i < 8; i++) {
    const other = await RawClient.connect(port);
    other.socket.pause();
    others.push(other);
    outcomes.push(other.request('GET', '/b/large').catch(() => 'lost'));
    while (gateway.asked.filter(({ stream }) => stream === 'large').length < i + 2) await waiting();
    seen = Math.max(seen, await waiting());
  }
  assert.ok(seen > 32 * 1024 * 1024 && seen <= 128 * 1024 * 1024, `${seen} bytes wait`);
  await fetch(`${client}/b/small`);
  assert.equal(gateway.last.maxBytes, 128 * 1024);
  for (const other of others) other.destroy();
  await Promise.all(outcomes);
  while ((await waiting()) > 0);
});
