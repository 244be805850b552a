// Tenant purge and quotas on the admin plane.
import assert from 'node:assert/strict';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { type Answer, JSON_TYPE, TEXT, producer, serverSuite } from '../support/suite.ts';

const GROUPS = 4;
const parse = (answer: Answer): unknown => JSON.parse(answer.text);

serverSuite('purge', { cores: 2, groups: GROUPS }, ({ server, test, expect, ask, freshBucket }) => {
  const admin = {
    get base() {
      return server.adminUrl;
    },
  };
  const purge = async (bucket: string): Promise<unknown> => {
    return parse(await expect(200, `DELETE /__svc/purge/${bucket}`, admin));
  };
  const usage = async (bucket: string): Promise<unknown> => {
    const report = parse(await expect(200, 'GET /__svc/usage', { base: server.adminUrl }));
    return (report as { buckets: Record<string, unknown> }).buckets[bucket];
  };

  test('erases streams, bucket and quota, reports them, keeps the counters; a repetition reports zeros', async () => {
    const bucket = freshBucket();
    const other = freshBucket();
    const names = Array.from({ length: 40 }, (_, i) => `s/${i}`);
    for (const name of names) {
      await expect(201, `PUT /${bucket}/${encodeURIComponent(name)}`, { headers: TEXT, body: name });
      await expect(201, `PUT /${other}/${encodeURIComponent(name)}`, { headers: TEXT, body: name });
    }
    await expect(204, `PUT /__svc/quota/${bucket}`, {
      base: server.adminUrl,
      headers: JSON_TYPE,
      body: '{"max_streams":40}',
    });
    const before = (await usage(bucket)) as Record<string, number>;
    const report = {
      bucket,
      removed_streams: 40,
      groups_with_streams: [...new Set(names.map((name) => fnv1a64mod(bucket, name, GROUPS)))].sort((a, b) => a - b),
      cold_gc_entries_reclaimed: 0,
    };
    assert.deepEqual(await purge(bucket), report);
    const counters = {
      committed_append_bytes: before['committed_append_bytes'],
      committed_records: 40,
      committed_write_units: 40,
    };
    assert.deepEqual(await usage(bucket), { ...counters, retained_bytes: 0, stream_count: 0 });
    await expect(404, `GET /${bucket}`);
    await expect(404, `DELETE /${bucket}`);
    for (const name of names) await expect(404, `GET /${bucket}/${encodeURIComponent(name)}?offset=-1`);
    assert.deepEqual(parse(await expect(200, `GET /__svc/quota/${bucket}`, admin)), {
      max_streams: null,
      max_retained_bytes: null,
      used_streams: 0,
      used_retained_bytes: 0,
    });
    assert.deepEqual(await purge(bucket), { ...report, removed_streams: 0, groups_with_streams: [] });
    assert.equal((await expect(200, `GET /${other}/s%2F7?offset=-1`)).text, 's/7');
    assert.equal((parse(await expect(200, `GET /${other}`)) as { streams: number }).streams, 40);
    // The name may be used again, and the counters go on.
    await expect(201, `PUT /${bucket}/s%2F7`, { headers: JSON_TYPE, body: '[1,2]' });
    assert.equal((await expect(200, `GET /${bucket}/s%2F7?offset=-1`)).text, '[1,2]');
    assert.deepEqual(await usage(bucket), {
      committed_append_bytes: (before['committed_append_bytes'] as number) + 4,
      committed_records: 42,
      committed_write_units: 41,
      retained_bytes: 4,
      stream_count: 1,
    });
  });

  test('an absent bucket reports zeros and gets no entry; names follow the rules of the client plane', async () => {
    const bucket = freshBucket();
    const nothing = { removed_streams: 0, groups_with_streams: [], cold_gc_entries_reclaimed: 0 };
    assert.deepEqual(await purge(bucket), { bucket, ...nothing });
    assert.equal(await usage(bucket), undefined);
    assert.deepEqual(await purge('a%2Fb%20c'), { bucket: 'a/b c', ...nothing });
    for (const bad of ['%00', 'v1', '__x', 'a%2F..%2Fb', '%zz']) await expect(400, `DELETE /__svc/purge/${bad}`, admin);
    for (const none of ['', 'a/b']) await expect(404, `DELETE /__svc/purge/${none}`, admin);
    await expect(405, `GET /__svc/purge/${bucket}`, admin);
    // The client plane has neither.
    for (const route of ['purge', 'quota']) {
      assert.equal((await ask(`DELETE /__svc/${route}/${bucket}`)).status, 404);
      assert.equal((await ask(`PUT /__svc/${route}/${bucket}`)).status, 404);
    }
  });

  test('live readers of a purged stream are told', async () => {
    const bucket = freshBucket();
    await expect(201, `PUT /${bucket}/s`, { headers: TEXT });
    const waiting = ask(`GET /${bucket}/s?offset=0&live=long-poll&timeout_ms=20000`);
    await purge(bucket);
    assert.equal((await waiting).status, 404);
  });

  test('a bucket of thousands of streams, written to while it is purged', async () => {
    const bucket = freshBucket();
    const total = 3000;
    let next = 0;
    const create = async (): Promise<void> => {
      while (next < total) await server.client.create(`/${bucket}/s${next++}`, TEXT, 'x');
    };
    await Promise.all(Array.from({ length: 50 }, create));
    const late = Array.from({ length: 20 }, (_, i) => ask(`PUT /${bucket}/late${i}`, { headers: TEXT, body: 'y' }));
    const first = (await purge(bucket)) as { removed_streams: number };
    await Promise.all(late);
    const second = (await purge(bucket)) as { removed_streams: number };
    assert.equal(first.removed_streams + second.removed_streams, total + 20);
    await expect(404, `GET /${bucket}`);
  });
});

serverSuite('quota', { process: true, cores: 1, groups: 1 }, ({ server, test, expect, freshBucket }) => {
  const put = (
    status: number,
    bucket: string,
    body?: string,
    type: string = JSON_TYPE['Content-Type'],
  ): Promise<Answer> =>
    expect(status, `PUT /__svc/quota/${bucket}`, {
      base: server.adminUrl,
      ...(body === undefined ? {} : { body, headers: { 'Content-Type': type } }),
    });
  const get = async (bucket: string): Promise<unknown> =>
    parse(await expect(200, `GET /__svc/quota/${bucket}`, { base: server.adminUrl }));
  const unused = { used_streams: 0, used_retained_bytes: 0 };

  test('bounds streams and bytes; what adds nothing is never refused', async () => {
    const bucket = freshBucket();
    await put(204, bucket, '{"max_streams":2,"max_retained_bytes":10}');
    assert.deepEqual(await get(bucket), { ...unused, max_streams: 2, max_retained_bytes: 10 });
    await expect(404, `GET /${bucket}`);
    await expect(429, `PUT /${bucket}/a`, { headers: TEXT, body: 'x'.repeat(11) });
    await expect(201, `PUT /${bucket}/a`, { headers: TEXT, body: '12345' });
    await expect(201, `PUT /${bucket}/b`, { headers: TEXT });
    const refused = await expect(429, `PUT /${bucket}/c`, { headers: TEXT });
    assert.equal(refused.headers.get('retry-after'), null);
    await expect(200, `PUT /${bucket}/a`, { headers: TEXT, body: 'x'.repeat(11) });
    const headers = { ...TEXT, ...producer('p', 0, 0) };
    await expect(200, `POST /${bucket}/b`, { headers, body: '67890' });
    await expect(204, `POST /${bucket}/b`, { headers, body: '67890' });
    await expect(429, `POST /${bucket}/b`, { headers: TEXT, body: '!' });
    await expect(429, `POST /${bucket}/b`, { headers: { ...TEXT, ...producer('p', 0, 1) }, body: '!' });
    const batch = Uint8Array.from([0, 0, 0, 1, 33]);
    assert.equal(
      (await expect(200, `POST /${bucket}/b/append-batch`, { headers: TEXT, body: batch })).text,
      '[{"status":429}]',
    );
    await expect(429, `POST /${bucket}/b/append-batch`, { headers: { ...TEXT, ...producer('p', 0, 1) }, body: batch });
    await expect(204, `POST /${bucket}/b`, { headers: { 'Stream-Closed': 'true' } });
    await expect(204, `DELETE /${bucket}/a`);
    // Facts about the producer count too.
    await expect(201, `PUT /${bucket}/c`, { headers: TEXT });
    // Other buckets have their own room, or no bound.
    await expect(201, `PUT /${freshBucket()}/a`, { headers: TEXT, body: 'x'.repeat(100) });
  });

  test('attributes count', async () => {
    const bucket = freshBucket();
    await put(204, bucket, '{"max_retained_bytes":100}');
    const attributes = JSON.stringify({ title: 'x'.repeat(80) });
    await expect(201, `PUT /${bucket}/a`, { headers: { ...TEXT, 'Stream-Attrs': attributes } });
    const { used_retained_bytes: used } = (await get(bucket)) as { readonly used_retained_bytes: number };
    assert(used >= 80 && used <= 120, `${used}`);
    await expect(429, `POST /${bucket}/a`, { headers: TEXT, body: 'y'.repeat(50) });
    await expect(204, `PUT /${bucket}/a/attrs`, { headers: JSON_TYPE, body: '{}' });
    await expect(204, `POST /${bucket}/a`, { headers: TEXT, body: 'y'.repeat(50) });
  });

  test('a snapshot that is published again is not refused, inside a frame or beside it; another one is', async () => {
    for (const size of [10, 300_000]) {
      const bucket = freshBucket();
      await put(204, bucket, `{"max_retained_bytes":${size + 300}}`);
      await expect(201, `PUT /${bucket}/s`, { headers: TEXT, body: 'abc' });
      const publish = (status: number, offset: number, fill: string): Promise<Answer> =>
        expect(status, `PUT /${bucket}/s/snapshot/${offset}`, { headers: TEXT, body: fill.repeat(size) });
      await publish(204, 3, 'x');
      await expect(204, `POST /${bucket}/s`, { headers: TEXT, body: 'y'.repeat(200) });
      await publish(429, 203, 'x');
      await publish(204, 3, 'x');
      // A snapshot that will be refused anyway is told why.
      await publish(409, 3, 'z');
      await publish(409, 204, 'x');
    }
  });

  test('survives a restart, is cleared by an empty call', async () => {
    const bucket = freshBucket();
    await put(204, bucket, '{"max_streams":0}');
    await server.kill();
    await server.start();
    assert.deepEqual(await get(bucket), { ...unused, max_streams: 0, max_retained_bytes: null });
    await expect(429, `PUT /${bucket}/a`, { headers: TEXT });
    for (const body of [undefined, '{}', '{"max_streams":null}']) {
      await put(204, bucket, '{"max_streams":0}');
      await put(204, bucket, body);
      assert.deepEqual(await get(bucket), { ...unused, max_streams: null, max_retained_bytes: null });
    }
    await expect(201, `PUT /${bucket}/a`, { headers: TEXT });
    const usage = parse(await expect(200, 'GET /__svc/usage', { base: server.adminUrl }));
    const { buckets } = usage as { buckets: Record<string, unknown> };
    assert(buckets[bucket] !== undefined);
  });

  test('refuses what is no quota', async () => {
    const bucket = freshBucket();
    for (const body of [
      '[]',
      '1',
      'null',
      '{"max_streams":-1}',
      '{"max_streams":1.5}',
      '{"max_streams":"1"}',
      '{"x":1}',
    ]) {
      await put(422, bucket, body);
    }
    await put(400, bucket, '{');
    await put(415, bucket, '{}', 'text/plain');
    const tooLarge = await put(413, bucket, `{"max_streams":${' '.repeat(5000)}1}`);
    assert.equal(tooLarge.text, 'a quota is at most 4096 bytes\n');
    await put(204, bucket, '{"max_retained_bytes":18446744073709551615}');
    const usage = parse(await expect(200, 'GET /__svc/usage', { base: server.adminUrl }));
    assert.equal(
      (usage as { buckets: Record<string, unknown> }).buckets[bucket],
      undefined,
      'a quota alone is no usage',
    );
    await expect(400, `PUT /__svc/quota/__x`, { base: server.adminUrl });
  });
});
