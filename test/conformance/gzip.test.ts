// Large JSON reads, compressed on request: exact bytes, tags of both forms, caches, and clients that leave.
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { type HeaderList, RawClient, type RawResponse, requestOnce } from '../support/raw-client.ts';
import { JSON_TYPE, type Suite, TEXT, serverSuite } from '../support/suite.ts';

const GZIP = { 'Accept-Encoding': 'gzip' } as const;
/** Two lines: some caches add them up, others keep the last. */
const VARY = 'Origin, Origin, Accept-Encoding';
const LARGE_BYTES = 40_000;
const POLL_MS = 20;

/** A JSON array in the form in which reads answer it. Different seeds make different bytes. */
function records(seed: string, bytes = LARGE_BYTES): string {
  const items: string[] = [];
  for (let size = 0, i = 0; size < bytes; i++) {
    const item = `{"seed":"${seed}","n":${i},"text":"the same for many, ${(i * 2_654_435_761) % 4_294_967_296}"}`;
    items.push(item);
    size += item.length + 1;
  }
  return `[${items.join(',')}]`;
}

function header(answer: RawResponse, name: string): string | undefined {
  return answer.headers.get(name);
}

function assertPlain(answer: RawResponse, body: string): void {
  assert.equal(answer.status, 200);
  assert.equal(header(answer, 'content-encoding'), undefined);
  assert.match(header(answer, 'etag') ?? '', /^"[0-9a-f]{16}"$/);
  assert.equal(answer.body.toString(), body);
}

function assertPacked(answer: RawResponse, body: string): void {
  assert.equal(answer.status, 200);
  assert.equal(header(answer, 'content-encoding'), 'gzip');
  assert.equal(header(answer, 'content-type'), 'application/json');
  assert.equal(header(answer, 'vary'), VARY);
  assert.match(header(answer, 'etag') ?? '', /^"[0-9a-f]{16}-gzip"$/);
  assert.equal(header(answer, 'content-length'), String(answer.body.length));
  assert(answer.body.length < body.length / 2, `${answer.body.length} of ${body.length} bytes`);
  assert.equal(gunzipSync(answer.body).toString(), body);
}

function getter({ server }: Suite): (path: string, headers?: HeaderList) => Promise<RawResponse> {
  return (path, headers = {}) => requestOnce(Number(new URL(server.url).port), 'GET', path, headers);
}

/** There is no event in another process: a number of its metrics is asked for again and again. */
async function metricIs({ expect }: Suite, name: string, value: number): Promise<void> {
  for (let tries = 0; ; tries++) {
    const metrics = JSON.parse((await expect(200, 'GET /__svc/metrics')).text) as Record<string, unknown>;
    if (metrics[name] === value) return;
    assert(tries < 1000, `${name} is ${String(metrics[name])}, not ${value}`);
    await delay(POLL_MS);
  }
}

serverSuite('gzip of JSON reads', { cores: 2, groups: 4, longPollTimeout: '20s' }, (suite) => {
  const { test, expect, ask, freshBucket, server } = suite;
  const get = getter(suite);
  const make = async (body = records('a'), type: Readonly<Record<string, string>> = JSON_TYPE): Promise<string> => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: type, body });
    return path;
  };

  test('catch-up reads of both families, by what the client prefers', async () => {
    const body = records('a');
    const path = await make(body);
    for (const url of [path, `/v1/stream${path}`, `${path}?offset=-1`, `${path}?record=0`]) {
      for (const wish of ['gzip', 'br, gzip;q=0.5', '*', 'x-gzip, identity;q=0.1']) {
        assertPacked(await get(url, { 'Accept-Encoding': wish }), body);
      }
      for (const wish of ['gzip;q=0', '*, gzip;q=0', 'br', 'identity', 'gzip, identity', 'gzip;q=nonsense']) {
        const answer = await get(url, { 'Accept-Encoding': wish });
        assertPlain(answer, body);
        assert.equal(header(answer, 'vary'), VARY, wish);
      }
      assertPlain(await get(url), body);
    }
    const fetched = await expect(200, `GET ${path}`);
    assert.equal(fetched.text, body, 'fetch asks for it and decodes it');
    assert.equal(fetched.headers.get('content-encoding'), 'gzip');
    const envelope = `${path}?record=0&record_view=envelope`;
    assert.deepEqual(gunzipSync((await get(envelope, GZIP)).body), (await get(envelope)).body);
  });

  test('small answers, other types and other routes come in one form', async () => {
    const path = await make();
    const text = await make(records('a'), TEXT);
    const small = await make(records('a', 1000));
    const other = [
      text,
      small,
      `${path}?max_bytes=0`,
      `${path}?max_bytes=1000`,
      `${path}?offset=now`,
      `${path}-absent`,
    ];
    for (const url of other) {
      const answer = await get(url, GZIP);
      assert.equal(header(answer, 'content-encoding'), undefined, url);
      assert.equal(header(answer, 'vary'), 'Origin', url);
      assert.doesNotMatch(header(answer, 'etag') ?? '', /gzip/, url);
    }
    assertPlain(await get(small, GZIP), records('a', 1000));
  });

  test('each form has its tag, and a client is told only of forms that it takes', async () => {
    const path = await make();
    const plain = header(await get(path), 'etag') ?? '';
    const packed = header(await get(path, GZIP), 'etag') ?? '';
    assert.equal(packed, plain.replace(/"$/, '-gzip"'));
    const check = async (wish: string, match: string): Promise<unknown> => {
      const answer = await get(path, { 'Accept-Encoding': wish, 'If-None-Match': match });
      if (answer.status === 304) {
        assert.deepEqual([header(answer, 'vary'), header(answer, 'content-encoding')], [VARY, undefined]);
        assert.equal(answer.body.length, 0);
      }
      return [answer.status, header(answer, 'etag')];
    };
    assert.deepEqual(await check('gzip', packed), [304, packed]);
    assert.deepEqual(await check('gzip', `"x", W/${packed}`), [304, packed]);
    assert.deepEqual(await check('gzip', plain), [304, plain]);
    assert.deepEqual(await check('identity', plain), [304, plain]);
    assert.deepEqual(await check('identity', packed), [200, plain]);
    assert.deepEqual(await check('gzip;q=0', `"x", ${packed}, ${plain}`), [304, plain]);
    assert.deepEqual(await check('gzip', '"0123456789abcdef-gzip"'), [200, packed]);
    const head = await expect(200, `HEAD ${path}`, { headers: GZIP });
    assert.deepEqual(
      ['etag', 'vary', 'content-encoding'].map((name) => head.headers.get(name)),
      [plain, VARY, null],
    );
  });

  test('writes may depend on the tag of either form', async () => {
    const path = await make();
    const tag = async (): Promise<string> => header(await get(path, GZIP), 'etag') ?? '';
    const seen = await tag();
    assert.match(seen, /-gzip"$/);
    const append = { ...JSON_TYPE, 'If-Match': seen };
    await expect(412, `POST ${path}`, { headers: { ...JSON_TYPE, 'If-None-Match': seen }, body: '1' });
    await expect(204, `POST ${path}`, { headers: append, body: '1' });
    await expect(412, `POST ${path}`, { headers: append, body: '1' });
    await expect(412, `DELETE ${path}`, { headers: { 'If-Match': seen } });
    await expect(412, `DELETE ${path}`, { headers: { 'If-Match': `W/${await tag()}` } });
    await expect(204, `DELETE ${path}`, { headers: { 'If-Match': await tag() } });
  });

  test('long-polls: one that finds bytes, and many that an append answers', async () => {
    const first = records('first');
    const path = await make(first);
    const poll = (offset: string, headers: HeaderList): Promise<RawResponse> =>
      get(`${path}?live=long-poll&offset=${offset}`, headers);
    const found = await poll('-1', GZIP);
    assertPacked(found, first);
    assertPlain(await poll('-1', {}), first);
    const tail = header(found, 'stream-next-offset') ?? '';
    const etag = header(found, 'etag') ?? '';
    assert.equal((await poll('-1', { ...GZIP, 'If-None-Match': etag })).status, 304);
    const waiting = Array.from({ length: 40 }, (_, i) => poll(tail, i % 2 === 0 ? GZIP : {}));
    // Those cannot be served by the event: they read again.
    const byRecord = get(`${path}?live=long-poll&record=${JSON.parse(first).length}`, GZIP);
    await metricIs(suite, 'long_poll_waiters', waiting.length + 1);
    const next = records('next');
    await expect(204, `POST ${path}`, { headers: JSON_TYPE, body: next });
    for (const [i, answer] of (await Promise.all(waiting)).entries()) {
      if (i % 2 === 0) assertPacked(answer, next);
      else assertPlain(answer, next);
      assert.match(header(answer, 'stream-cursor') ?? '', /^\d+$/);
    }
    assertPacked(await byRecord, next);
    await metricIs(suite, 'long_poll_waiters', 0);
    await metricIs(suite, 'http_compressing_bytes', 0);
  });

  test('event streams are never compressed', async () => {
    const path = await make();
    const leave = new AbortController();
    const response = await fetch(`${server.url}${path}?live=sse&offset=-1`, { headers: GZIP, signal: leave.signal });
    assert.equal(response.headers.get('content-encoding'), null);
    assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
    leave.abort();
  });

  test('many at once: each gets its own bytes, whole', async () => {
    const streams = await Promise.all(
      Array.from({ length: 12 }, async (_, i) => {
        const body = records(`stream ${i}`, 20_000 + i * 60_000);
        return { path: await make(body), body };
      }),
    );
    const rounds = Array.from({ length: 5 }, () => streams).flat();
    await Promise.all(
      rounds.map(async ({ path, body }) => {
        // Without room for more work at once the answer is plain.
        const answer = await get(path, GZIP);
        if (header(answer, 'content-encoding') === undefined) assertPlain(answer, body);
        else assertPacked(answer, body);
      }),
    );
    await metricIs(suite, 'http_compressing_bytes', 0);
  });

  test('clients that leave take nothing with them', async () => {
    const path = await make(records('large', 900_000));
    const { port } = new URL(server.url);
    for (let round = 0; round < 20; round++) {
      const clients = await Promise.all(Array.from({ length: 5 }, () => RawClient.connect(Number(port))));
      const answers = clients.map((client, i) =>
        client.request('GET', `${path}${i % 2 === 0 ? '' : '?live=long-poll&offset=-1'}`, GZIP),
      );
      // Some leave at once, some when others of theirs have been answered.
      if (round % 2 === 0) await answers[0];
      for (const client of clients) client.destroy();
      await Promise.allSettled(answers);
    }
    for (const name of ['http_compressing_bytes', 'http_unsent_answer_bytes', 'long_poll_waiters']) {
      await metricIs(suite, name, 0);
    }
    assert.equal((await ask(`GET ${path}`)).status, 200);
  });
});

const CACHED = 'read_cache = "public"\ncors_origins = ["https://a.example"]';

serverSuite('gzip and caches', { cores: 1, groups: 4, http: CACHED }, (suite) => {
  const { test, expect, freshBucket } = suite;
  const get = getter(suite);

  test('both forms may be kept, and name everything that they depend on', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: JSON_TYPE, body: records('a') });
    const url = `${path}?offset=-1`;
    for (const headers of [{}, GZIP, { ...GZIP, Origin: 'https://a.example' }, { Origin: 'https://b.example' }]) {
      const answer = await get(url, headers);
      assert.equal(header(answer, 'content-encoding'), 'Accept-Encoding' in headers ? 'gzip' : undefined);
      assert.match(header(answer, 'cache-control') ?? '', /^public, max-age=60/);
      assert.equal(header(answer, 'vary'), VARY);
      const again = await get(url, { ...headers, 'If-None-Match': header(answer, 'etag') ?? '' });
      assert.deepEqual([again.status, header(again, 'etag')], [304, header(answer, 'etag')]);
      assert.equal(header(again, 'vary'), VARY);
    }
  });
});
