// The id of a refusal: whose it is, what is taken from a client, and that an answer which succeeds has none.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { startPlanes } from './planes.ts';

const OURS = /^7-c0ffee00-[0-9a-z]+$/;

test('a well-formed id comes back in every refusal, on both planes', async (t) => {
  const { port, adminPort } = await startPlanes(t);
  const longest = 'x'.repeat(128);
  for (const id of ['1', '5b0ce2a8-3a1e-4f9a-9c1d-4d4a8f6a1c11', 'Root=1-67891233-abcdef', 'a/b+c==', longest]) {
    for (const [at, method, path] of [
      [port, 'POST', '/b/%00'],
      [port, 'HEAD', '/b/%00'],
      [port, 'PATCH', '/b/s'],
      [adminPort, 'GET', '/__svc/nowhere'],
    ] as const) {
      const answer = await requestOnce(at, method, path, { 'X-Request-Id': id });
      assert(answer.status >= 400, `${method} ${path}: ${answer.status}`);
      assert.equal(answer.headers.get('x-request-id'), id, `${method} ${path}`);
    }
  }
});

test('in place of a malformed or missing one the node makes its own, another for each request', async (t) => {
  const { port, adminPort } = await startPlanes(t);
  const seen = new Set<string>();
  const malformed = ['', 'a b', 'a"b', 'a,b', '<script>', 'x'.repeat(129), 'x'.repeat(10_000), 'a\u00e9b', 'a\tb'];
  const headers = [{}, ...malformed.map((id) => ({ 'X-Request-Id': id }))];
  for (const at of [port, adminPort]) {
    for (const sent of headers) {
      const id = (await requestOnce(at, 'GET', '/__svc/nowhere', sent)).headers.get('x-request-id') ?? '';
      assert.match(id, OURS, JSON.stringify(sent).slice(0, 100));
      seen.add(id);
    }
  }
  assert.equal(seen.size, 2 * headers.length);
});

test('an answer that succeeds has none, and leaves none to the next request of its connection', async (t) => {
  const { port } = await startPlanes(t);
  const client = await RawClient.connect(port);
  t.after(() => client.destroy());
  const written = await client.request('POST', '/b/s', { 'Content-Type': 'a/b', 'X-Request-Id': 'first' }, 'x');
  assert.deepEqual([written.status, written.headers.get('x-request-id')], [204, undefined]);
  const refused = await client.request('POST', '/b/%00', { 'Content-Type': 'a/b' }, 'x');
  assert.equal(refused.status, 400);
  assert.match(refused.headers.get('x-request-id') ?? '', OURS);
});
