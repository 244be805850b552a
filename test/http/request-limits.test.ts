// Limits over every row of the client plane and real sockets: each request counts for its token and, where it names one,
// for its bucket, and what is too much is refused before a shard is asked.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { LimitBook } from '../../src/access/limit-book.ts';
import { type NodeLimits, NO_LIMITS } from '../../src/base/use-limits.ts';
import { SCOPED_OPERATIONS } from '../../src/base/scopes.ts';
import { CLIENT_ROWS, type RouteRow } from '../../src/http/routes/table.ts';
import { type RawResponse, RawClient, requestOnce } from '../support/raw-client.ts';
import { bearer, bookOf, listed, scopeOf } from '../support/scoped-tokens.ts';
import { until } from '../support/until.ts';
import { type Rig, startPlanes } from './planes.ts';

interface Limited extends Rig {
  readonly book: LimitBook;
  readonly clock: { nowMs: number };
}

async function start(t: TestContext, limits: Partial<NodeLimits>, tokens: readonly string[] = []): Promise<Limited> {
  const book = new LimitBook({ node: { ...NO_LIMITS, ...limits }, tokens: [] });
  const clock = { nowMs: 0 };
  const all = tokens.map((id) => listed(id, [scopeOf('shop', '*', ...SCOPED_OPERATIONS)]));
  const settings = tokens.length === 0 ? {} : { clientTokens: bookOf(all) };
  const rig = await startPlanes(t, { ...settings, limits: book, monotonicMs: () => clock.nowMs });
  return { ...rig, book, clock };
}

function pathOf({ pattern }: RouteRow, bucket: string): string {
  const values: Readonly<Record<string, string>> = { bucket, stream: 's', offset: '0' };
  const path = pattern.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? 'x').replace('*', 'other');
  return /\/(snapshot|retention)$/.test(pattern) ? `${path}?record=0` : path;
}

const REQUESTS = CLIENT_ROWS.flatMap((row) =>
  row.methods.map((method) => ({ row, method: method === '*' ? 'POST' : method })),
);

function codeOf({ status, headers }: RawResponse): string {
  return `${status} ${headers.get('millrace-error') ?? ''} ${headers.get('retry-after') ?? ''}`;
}

const TYPE = { 'Content-Type': 'text/plain' };

test('a request to any route counts for its token', async (t) => {
  const { port, gateway } = await start(
    t,
    { token: { requests_per_second: 1 } },
    REQUESTS.map((_, i) => `t${i}`),
  );
  const askAll = async (): Promise<string[]> =>
    await Promise.all(
      REQUESTS.map(async ({ row, method }, i) => {
        const headers = { ...TYPE, ...bearer(`t${i}`) };
        return `${method} ${row.pattern}: ${codeOf(await requestOnce(port, method, pathOf(row, 'shop'), headers, ''))}`;
      }),
    );
  for (const answer of await askAll()) assert.doesNotMatch(answer, /: 429/);
  const asked = gateway.asked.length;
  for (const answer of await askAll()) assert.match(answer, /: 429 RATE_LIMITED 1$/);
  assert.equal(gateway.asked.length, asked, 'no shard hears of it');
  assert.equal((await requestOnce(port, 'PATCH', '/nowhere/at/all/x', bearer('t0'))).status, 429, 'nor any other');
});

test('a request that names a bucket counts for it, with any sender', async (t) => {
  const { port } = await start(t, { bucket: { requests_per_second: 1 } });
  let counted = 0;
  const checkRow = async ({ row, method }: (typeof REQUESTS)[number], i: number): Promise<void> => {
    const ask = async (): Promise<RawResponse> => await requestOnce(port, method, pathOf(row, `bucket-${i}`), TYPE, '');
    assert.notEqual((await ask()).status, 429, `${method} ${row.pattern}`);
    const isNamed = row.pattern.includes('{bucket}');
    if (isNamed) counted++;
    assert.equal((await ask()).status === 429, isNamed, `${method} ${row.pattern}`);
  };
  await Promise.all(REQUESTS.map(checkRow));
  assert(counted > 15, `${counted} rows name a bucket`);
  await requestOnce(port, 'HEAD', '/flat/s');
  assert.equal((await requestOnce(port, 'HEAD', '/v1/stream/flat/s')).status, 429, 'by its other path');
});

test('what is out of scope uses up nothing of a bucket, and says so until the token is used up', async (t) => {
  const limits = { token: { requests_per_second: 3 }, buckets: [['other', { requests_per_second: 1 }]] as const };
  const { port, book } = await start(t, limits, ['till']);
  for (const status of [404, 404, 404, 429]) {
    assert.equal((await requestOnce(port, 'GET', '/other/s', bearer('till'))).status, status);
  }
  assert.equal(book.buckets.size, 0);
});

test('no route uses up anything of a bucket that is out of scope, nor learns whether it has a limit', async (t) => {
  const { port, book } = await start(t, { bucket: { requests_per_second: 1 } }, ['till']);
  let named = 0;
  for (const { row, method } of REQUESTS.filter(({ row: { pattern } }) => pattern.includes('{bucket}'))) {
    const isListing = row.operation === 'list';
    for (const _ of [1, 2]) {
      const headers = { ...TYPE, ...bearer('till') };
      const { status } = await requestOnce(port, method, pathOf(row, 'other'), headers, '');
      assert.equal(status, isListing ? 200 : 404, `${method} ${row.pattern}`);
    }
    named++;
  }
  assert(named > 15, `${named} rows name a bucket`);
  assert.equal(book.buckets.size, 0);
  assert.equal((await requestOnce(port, 'GET', '/shop/streams', bearer('till'))).status, 200);
  assert.equal((await requestOnce(port, 'GET', '/shop/streams', bearer('till'))).status, 429, 'its own is counted');
});

test('bodies count as they come, and time pays for them', async (t) => {
  const { port, clock, book } = await start(t, { buckets: [['shop', { bytes_per_second: 1000 }]] });
  const append = async (bucket: string): Promise<RawResponse> =>
    await requestOnce(port, 'POST', `/${bucket}/s`, TYPE, 'x'.repeat(5000));
  assert.equal((await append('shop')).status, 204, 'larger than a second allows');
  const refused = await append('shop');
  assert.equal(codeOf(refused), '429 RATE_LIMITED 5');
  assert.match(refused.body.toString(), /^more came .*: the bucket "shop" has bytes_per_second = 1000 on this node; /);
  assert.equal((await append('other')).status, 204);
  clock.nowMs = 4002;
  assert.equal((await append('shop')).status, 204);
  const client = await RawClient.connect(port);
  t.after(() => client.destroy());
  client.socket.write('POST /shop/s HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n');
  clock.nowMs = 20_000;
  client.socket.write(`100\r\n${'x'.repeat(256)}\r\n`);
  await until('half a body is counted', () => book.ofBucket('shop')?.used.bytes === 10_256);
});

test('answers count, too', async (t) => {
  const { port, gateway, book } = await start(t, { bucket: { bytes_per_second: 10 } });
  gateway.script = (_, reply) => {
    reply.body = new Uint8Array(100);
    reply.nextOffset = 100;
  };
  assert.equal((await requestOnce(port, 'GET', '/shop/s?offset=-1')).status, 200);
  assert.equal(codeOf(await requestOnce(port, 'GET', '/shop/s?offset=-1')), '429 RATE_LIMITED 10');
  assert.equal(book.ofBucket('shop')?.used.bytes, 100);
});

test('live readers are bounded, and their places come back when they leave', async (t) => {
  const { port, book, gateway } = await start(t, { bucket: { live_readers: 2 } });
  gateway.script = () => false;
  const readers = await Promise.all([1, 2].map(async () => await RawClient.connect(port)));
  t.after(() => readers.forEach((one) => one.destroy()));
  for (const live of ['sse', 'long-poll'] as const) {
    readers[live === 'sse' ? 0 : 1]?.socket.write(`GET /shop/s?offset=now&live=${live} HTTP/1.1\r\nHost: x\r\n\r\n`);
  }
  await until('both are there', () => book.ofBucket('shop')?.used.readers === 2);
  for (const live of ['sse', 'long-poll']) {
    const refused = await requestOnce(port, 'GET', `/shop/s?offset=now&live=${live}`);
    assert.equal(codeOf(refused), '429 READERS_LIMITED 1');
    assert.match(refused.body.toString(), /the bucket "shop" has live_readers = 2 on this node/);
  }
  readers[0]?.destroy();
  await until('one has left', () => book.ofBucket('shop')?.used.readers === 1);
  readers[1]?.destroy();
  await until('none is left', () => book.ofBucket('shop')?.used.readers === 0);
});

test('a refusal is told late, to who is still there', async (t) => {
  const { port, book, clock, counters } = await start(t, { bucket: { requests_per_second: 1 } });
  assert.equal((await requestOnce(port, 'HEAD', '/shop/s')).status, 200);
  const client = await RawClient.connect(port);
  client.socket.write('HEAD /shop/s HTTP/1.1\r\nHost: x\r\n\r\n');
  await until('it is refused', () => book.ofBucket('shop')?.used.refused === 1);
  client.destroy();
  const late = requestOnce(port, 'HEAD', '/shop/s');
  assert.equal(await Promise.race([late, requestOnce(port, 'HEAD', '/other/s')]).then(({ status }) => status), 200);
  clock.nowMs += 250;
  assert.equal((await late).status, 429);
  const { latency_us: latencies } = counters.snapshot();
  for (const { max } of Object.values(latencies)) assert(max < 1000, 'the wait is not counted');
});

test('operators have no limits', async (t) => {
  const { adminPort } = await start(t, { bucket: { requests_per_second: 1 } });
  for (const _ of [1, 2, 3]) {
    assert.equal((await requestOnce(adminPort, 'GET', '/__svc/quota/shop')).status === 429, false);
  }
});
