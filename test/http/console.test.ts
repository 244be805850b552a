// The console's page on the admin plane, and the streams that it shows.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { readConsolePage } from '../../src/console/built-page.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import { requestOnce } from '../support/raw-client.ts';
import { startPlanes } from './planes.ts';

const PAGE_BYTES_MAX = 300 * 1024;

test('the built page is one document within its bound, and asks no other origin', () => {
  const page = readConsolePage('node');
  assert(page !== undefined, 'the build writes it');
  const html = Buffer.from(page.plain.bytes).toString('utf8');
  assert(html.length < PAGE_BYTES_MAX, `${html.length} bytes`);
  assert.doesNotMatch(html, /<(?:script|link|img|iframe)[^>]*(?:src|href)="(?!data:)/);
  assert.doesNotMatch(html, / style="| on[a-z]+="/);
  assert.equal(html.match(/<script/g)?.length, 1);
  assert.match(html, /data-console="node"/);
  const cluster = readConsolePage('cluster');
  assert.match(Buffer.from(cluster?.plain.bytes ?? []).toString('utf8'), /data-console="cluster"/);
});

test('the page is served on the admin plane at / without the token, under a policy of its own hashes', async (t) => {
  const { admin, client, adminPort } = await startPlanes(t, { adminToken: 'secret' });
  const served = await fetch(`${admin}/`);
  const html = await served.text();
  assert.deepEqual([served.status, served.headers.get('content-type')], [200, 'text/html; charset=utf-8']);
  const policy = served.headers.get('content-security-policy') ?? '';
  assert.match(policy, /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; connect-src 'self'/);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
  const script = /<script[^>]*>([\s\S]*?)<\/script>/.exec(html)?.[1] ?? '';
  assert(policy.includes(`'sha256-${createHash('sha256').update(script).digest('base64')}'`));
  assert.deepEqual(
    ['x-frame-options', 'referrer-policy', 'cache-control'].map((name) => served.headers.get(name)),
    ['DENY', 'no-referrer', 'no-cache'],
  );
  const plain = await requestOnce(adminPort, 'GET', '/');
  assert.deepEqual([plain.headers.get('content-encoding'), plain.body.toString()], [undefined, html]);
  const packed = await requestOnce(adminPort, 'GET', '/', { 'accept-encoding': 'gzip' });
  assert.equal(packed.headers.get('content-encoding'), 'gzip');
  assert.equal(gunzipSync(packed.body).toString(), html);
  const tag = plain.headers.get('etag') ?? '';
  assert.equal((await requestOnce(adminPort, 'GET', '/', { 'if-none-match': tag })).status, 304);
  assert.equal((await requestOnce(adminPort, 'HEAD', '/')).body.length, 0);
  const authorization = 'Bearer secret';
  assert.equal((await fetch(`${admin}/`, { method: 'POST', headers: { authorization } })).status, 405);
  assert.equal((await fetch(`${client}/`)).status, 404, 'the client plane has no page');
});

test('a page elsewhere gets nothing; the own page does', async (t) => {
  const { admin, adminPort } = await startPlanes(t);
  // As the Host header of these requests.
  const own = 'http://localhost';
  const mark = '/__svc/leadership-shed/maintenance';
  const post = async (headers: Record<string, string>): Promise<number> =>
    (await requestOnce(adminPort, 'POST', mark, headers)).status;
  assert.equal(await post({ origin: own, 'sec-fetch-site': 'same-origin' }), 200);
  assert.equal(await post({ origin: 'http://evil.example', 'sec-fetch-site': 'cross-site' }), 403);
  const foreign = await requestOnce(adminPort, 'GET', '/', { 'sec-fetch-site': 'cross-site' });
  assert.match(foreign.body.toString(), /requests of its own page only/);
  assert.equal((await fetch(`${admin}/`)).status, 200);
});

test('the admin plane has the streams below /__svc/streams, for senders with its token', async (t) => {
  const { gateway, admin } = await startPlanes(t, { adminToken: 'secret' });
  const headers = { authorization: 'Bearer secret' };
  const ask = async (method: string, path: string, more: Record<string, string> = {}, body?: string): Promise<number> =>
    (
      await fetch(`${admin}/__svc/streams${path}`, {
        method,
        headers: { ...headers, ...more },
        ...(body === undefined ? {} : { body }),
      })
    ).status;
  assert.equal((await fetch(`${admin}/__svc/streams/b/s`)).status, 401);
  const text = { 'content-type': 'text/plain' };
  const asked: readonly (readonly [string, string, number, Record<string, string>?, string?])[] = [
    ['GET', '/b/a%2Fb?offset=-1', QUERIES.read.number],
    ['HEAD', '/b/a%2Fb', QUERIES.head.number],
    ['POST', '/b/a%2Fb', COMMANDS.append.number, text, 'x'],
    ['PUT', '/b/a%2Fb', COMMANDS.create.number, text],
    ['DELETE', '/b/a%2Fb', COMMANDS.deleteStream.number],
  ];
  for (const [method, path, operation, more, body] of asked) {
    await ask(method, path, more, body);
    const { op, bucket, stream } = gateway.last;
    assert.deepEqual([op, bucket, stream], [operation, 'b', 'a/b'], `${method} ${path}`);
  }
  await ask('GET', '/b/streams?prefix=x');
  assert.deepEqual([gateway.last.op, gateway.last.bucket], [QUERIES.list.number, 'b']);
  await ask('GET', '/b');
  assert.equal(gateway.last.op, QUERIES.bucket.number);
  const count = gateway.asked.length;
  assert.equal(await ask('GET', '/b/s/snapshot'), 404, 'what the console does not show is not there');
  assert.equal(await ask('GET', '/b/..%2Fx'), 400);
  assert.equal(await ask('GET', '/__subscriptions/log'), 400, 'internal streams are hidden');
  assert.equal(await ask('GET', '/v1/stream/b/s'), 404);
  assert.equal(await ask('POST', '/b/s', { ...text, 'content-encoding': 'gzip' }, 'x'), 415);
  assert.equal(gateway.asked.length, count);
});
