// Reads through a shared cache that is a real one (nginx): a thousand long-polls are one request to the node, whether
// something comes or not, and what must not be kept is not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { proxyMissing, startNginx } from '../support/proxies.ts';
import { RawClient, type RawResponse, requestOnce } from '../support/raw-client.ts';
import { type TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const POLLERS = 1000;
const TEXT = { 'content-type': 'text/plain' };
/**
 * A cache lookup repeated while another request waits at its lock may find an answer that is just over two seconds old.
 */
const TURNS_MAX = 10;

interface Counted {
  readonly latency_us: Readonly<Record<string, { readonly count: number } | undefined>>;
}

async function countOf(server: TestServer, operation: string): Promise<number> {
  return ((await server.metrics()) as unknown as Counted).latency_us[operation]?.count ?? 0;
}

const caching = (folder: string): { http: string; location: string } => ({
  http: `proxy_cache_path ${folder} keys_zone=reads:1m;`,
  location: `proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
    proxy_cache reads; proxy_cache_key $request_method$http_host$request_uri; proxy_cache_convert_head off;
    proxy_cache_lock on; proxy_cache_lock_timeout 70s; proxy_cache_lock_age 70s; proxy_read_timeout 70s;
    add_header X-Cache $upstream_cache_status always;`,
});

test('a thousand long-polls through nginx are one request to the node', { skip: proxyMissing('nginx') }, async (t) => {
  await withServer({ http: 'read_cache = "public"\n', longPollTimeout: '60s' }, async (server) => {
    const folder = temporaryFolder('cache');
    t.after(() => removeFolder(folder));
    const port = await startNginx(t, { upstreamPort: server.port, ...caching(folder) });
    const to = (method: string, path: string, body = ''): Promise<RawResponse> =>
      requestOnce(server.port, method, path, body === '' ? {} : TEXT, body);
    assert.equal((await to('PUT', '/b/s', 'one')).status, 201);
    const clients = await Promise.all(Array.from({ length: POLLERS }, () => RawClient.connect(port)));
    const all = (path: string): Promise<RawResponse[]> =>
      Promise.all(clients.map((client) => client.request('GET', path)));
    const one = (answers: readonly RawResponse[], name: string): string => {
      const values = new Set(answers.map((answer) => answer.headers.get(name) ?? ''));
      assert.equal(values.size, 1, `all have the same ${name}: ${[...values].join(' | ')}`);
      return [...values].join();
    };
    let next = '00000000000000000003';
    let cursor = '';
    for (const word of ['two', 'three']) {
      const before = await countOf(server, 'long_poll');
      const polls = all(`/b/s?cursor=${cursor}&live=long-poll&offset=${next}`);
      await until('a reader waits', async () => (await server.metrics())['long_poll_waiters'] === 1);
      assert.equal((await to('POST', '/b/s', word)).status, 204);
      const answers = await polls;
      for (const answer of answers) assert.deepEqual([answer.status, answer.body.toString()], [200, word]);
      assert.equal(one(answers, 'cache-control'), 'public, max-age=60, stale-while-revalidate=300');
      next = one(answers, 'stream-next-offset');
      cursor = one(answers, 'stream-cursor');
      assert.equal((await countOf(server, 'long_poll')) - before, 1, 'requests that reached the node');
    }
    // Nothing arrives: all requests still continue together.
    const before = await countOf(server, 'long_poll');
    const quiet = await all(`/b/s?cursor=${cursor}&live=long-poll&offset=${next}&timeout_ms=500`);
    assert.deepEqual([...new Set(quiet.map((answer) => answer.status))], [204]);
    assert.equal(one(quiet, 'cache-control'), 'public, max-age=2');
    assert((await countOf(server, 'long_poll')) - before <= TURNS_MAX, 'requests that reached the node');
    for (const answer of quiet) assert(Number(answer.headers.get('stream-cursor')) > Number(cursor), 'another URL');
    for (const client of clients) client.destroy();

    const reads = await countOf(server, 'read');
    for (let i = 0; i < 5; i++) {
      const { status, body, headers } = await requestOnce(port, 'GET', '/b/s?offset=0');
      assert.deepEqual(
        [status, body.toString(), headers.get('x-cache')],
        [200, 'onetwothree', i === 0 ? 'MISS' : 'HIT'],
      );
    }
    assert.equal((await countOf(server, 'read')) - reads, 1);
    // Bytes that are not there yet, or not named by the URL, are asked for every time.
    for (const path of [
      `/b/s?offset=${next}`,
      '/b/s?offset=now',
      '/b/s?offset=99',
      '/b/none',
      '/b/s/attrs',
      '/b/s?offset=x',
    ]) {
      for (let i = 0; i < 2; i++) {
        const answer = await requestOnce(port, 'GET', path);
        assert.equal(answer.headers.get('cache-control'), 'no-store', path);
        assert.equal(answer.headers.get('x-cache'), 'MISS', path);
      }
    }
    const page = await requestOnce(port, 'GET', '/b/s?offset=0', { origin: 'http://localhost:3000' });
    assert.equal(
      page.headers.get('access-control-allow-origin'),
      'http://localhost:3000',
      'a page gets its own answer',
    );
    assert.match(page.headers.get('vary') ?? '', /Origin/i);
  });
});

test(
  'private answers stay out of a shared cache, and none are the default',
  { skip: proxyMissing('nginx') },
  async (t) => {
    for (const [http, cacheControl] of [
      ['', 'no-store'],
      ['read_cache = "private"\n', 'private, max-age=60, stale-while-revalidate=300'],
    ] as const) {
      await withServer({ http }, async (server) => {
        const folder = temporaryFolder('cache');
        t.after(() => removeFolder(folder));
        const port = await startNginx(t, { upstreamPort: server.port, ...caching(folder) });
        await requestOnce(server.port, 'PUT', '/b/s', TEXT, 'one');
        for (const query of ['offset=0', 'live=long-poll&offset=0']) {
          for (let i = 0; i < 2; i++) {
            const { status, headers } = await requestOnce(port, 'GET', `/b/s?${query}`);
            assert.deepEqual(
              [status, headers.get('cache-control'), headers.get('x-cache')],
              [200, cacheControl, 'MISS'],
            );
          }
        }
        const empty = await requestOnce(port, 'GET', '/b/s?live=long-poll&offset=3');
        assert.deepEqual([empty.status, empty.headers.get('cache-control')], [204, 'no-store']);
      });
    }
  },
);
