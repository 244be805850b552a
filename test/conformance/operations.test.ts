// The surroundings of streams: buckets and listing, usage, metrics, health, CORS and browser headers, routes that are
// none.
import assert from 'node:assert/strict';
import { assertHeaders, JSON_TYPE, producer, serverSuite, TEXT, type Answer } from '../support/suite.ts';

const UNIT = 10_240;

interface UsageEntry {
  readonly committed_append_bytes: number;
  readonly committed_records: number;
  readonly committed_write_units: number;
  readonly retained_bytes: number;
  readonly stream_count: number;
}

const parse = <T>(answer: Answer): T => JSON.parse(answer.text) as T;

serverSuite('buckets and listing', { cores: 2 }, ({ test, expect, freshBucket }) => {
  test('PUT answers 201 and stores nothing; a bucket lives by its streams', async () => {
    const bucket = freshBucket();
    for (let i = 0; i < 2; i++) await expect(201, `PUT /${bucket}`);
    const ignored = [
      { 'If-None-Match': '*' },
      { 'If-Match': '"tag"' },
      { 'Stream-Expected-Offset': '7' },
      { 'Content-Encoding': 'gzip' },
    ];
    for (const headers of ignored) await expect(201, `PUT /${bucket}`, { headers, body: 'x' });
    await expect(404, `GET /${bucket}`);
    await expect(404, `DELETE /${bucket}`);
    for (const name of ['a', 'b', 'c']) await expect(201, `PUT /${bucket}/${name}`, { headers: TEXT });
    const described = parse<{ bucket_id: string; streams: number }>(await expect(200, `GET /${bucket}`));
    assert.equal(described.bucket_id, bucket);
    assert.equal(described.streams, 3);
    await expect(409, `DELETE /${bucket}`);
    for (const name of ['a', 'b', 'c']) await expect(204, `DELETE /${bucket}/${name}`);
    await expect(204, `DELETE /${bucket}`);
    await expect(404, `GET /${bucket}`);
    await expect(404, `DELETE /${bucket}`);
  });

  test('listing: sorted over all groups, with prefix, pages and facts about each stream', async () => {
    const bucket = freshBucket();
    const names = Array.from({ length: 25 }, (_, i) => `s${String(i).padStart(2, '0')}`);
    for (const name of [...names].reverse()) await expect(201, `PUT /${bucket}/${name}`, { headers: TEXT, body: name });
    await expect(201, `PUT /${bucket}/other`, { headers: { ...JSON_TYPE, 'Stream-Closed': 'true' }, body: '[1]' });
    interface Page {
      readonly bucket_id: string;
      readonly stream_count: number;
      readonly streams: readonly {
        stream_id: string;
        content_type: string;
        tail_offset: number | string;
        status: string;
      }[];
      readonly next_cursor: string | null;
      readonly has_more: boolean;
    }
    const list = async (query: string): Promise<Page> =>
      parse<Page>(await expect(200, `GET /${bucket}/streams${query}`));
    const all = await list('');
    assert.equal(all.bucket_id, bucket);
    assert.equal(all.has_more, false);
    assert.deepEqual(
      all.streams.map((stream) => stream.stream_id),
      ['other', ...names],
    );
    assert.deepEqual(
      (await list('?prefix=s1')).streams.map((stream) => stream.stream_id),
      names.slice(10, 20),
    );
    const other = all.streams[0];
    assert.equal(other?.content_type, 'application/json');
    assert.equal(Number(other.tail_offset), 2);
    assert.match(other.status, /closed/i);
    const collected: string[] = [];
    let cursor = '';
    for (;;) {
      const page = await list(`?limit=7&prefix=s${cursor === '' ? '' : `&after=${cursor}`}`);
      assert(page.streams.length <= 7);
      collected.push(...page.streams.map((stream) => stream.stream_id));
      if (!page.has_more) break;
      cursor = page.next_cursor ?? '';
    }
    assert.deepEqual(collected, names);
    for (const bad of ['limit=0', 'limit=-1', 'limit=1001', 'limit=x', 'limit=1.5'])
      await expect(400, `GET /${bucket}/streams?${bad}`);
  });
});

serverSuite('usage, to the letter', { process: true, cores: 2 }, ({ server, test, expect, ask, freshBucket }) => {
  const usage = async (bucket: string): Promise<UsageEntry | undefined> => {
    const report = parse<{ version: number; write_unit_bytes: number; buckets: Record<string, UsageEntry> }>(
      await expect(200, 'GET /__svc/usage', { base: server.adminUrl }),
    );
    assert.equal(report.version, 1);
    assert.equal(report.write_unit_bytes, UNIT);
    return report.buckets[bucket];
  };

  test('every rule of the meter', async () => {
    const bucket = freshBucket();
    const expected = {
      committed_append_bytes: 0,
      committed_records: 0,
      committed_write_units: 0,
      retained_bytes: 0,
      stream_count: 0,
    };
    const check = async (what: string, bytes: number, records: number, units: number, streams = 0): Promise<void> => {
      expected.committed_append_bytes += bytes;
      expected.committed_records += records;
      expected.committed_write_units += units;
      expected.retained_bytes += bytes;
      expected.stream_count += streams;
      const entry = await usage(bucket);
      assert.deepEqual({ ...expected, ...entry }, expected, what);
      for (const field of Object.keys(expected))
        assert.equal(typeof entry?.[field as keyof UsageEntry], 'number', `${what}: ${field}`);
    };
    const bytes = `/${bucket}/bytes`;
    const json = `/${bucket}/json`;
    await expect(201, `PUT ${bytes}`, { headers: TEXT });
    await check('an empty create is one unit', 0, 0, 1, 1);
    await expect(200, `PUT ${bytes}`, { headers: TEXT });
    await check('a repeated create adds nothing', 0, 0, 0);
    await expect(204, `POST ${bytes}`, { headers: TEXT, body: 'x' });
    await check('one byte', 1, 1, 1);
    await expect(204, `POST ${bytes}`, { headers: TEXT, body: 'x'.repeat(UNIT) });
    await check('exactly one unit', UNIT, 1, 1);
    await expect(204, `POST ${bytes}`, { headers: TEXT, body: 'x'.repeat(UNIT + 1) });
    await check('one byte more is two units', UNIT + 1, 1, 2);
    await expect(201, `PUT ${json}`, { headers: JSON_TYPE, body: ' [1, 2, {"a": 3}] ' });
    await check('a create with records counts the canonical bytes', '1\n2\n{"a":3}\n'.length, 3, 1, 1);
    await expect(204, `POST ${json}`, { headers: JSON_TYPE, body: `["${'y'.repeat(UNIT - 3)}", 5]` });
    await check('units are rounded per request, not per record', UNIT + 2, 2, 2);
    const asProducer = { headers: { ...TEXT, ...producer('p', 0, 0) }, body: 'abc' };
    await expect(200, `POST ${bytes}`, asProducer);
    await check('an accepted producer append', 3, 1, 1);
    await expect(204, `POST ${bytes}`, asProducer);
    await check('a duplicate adds nothing', 0, 0, 0);
    await expect(400, `POST ${bytes}`, { headers: JSON_TYPE, body: '1' });
    await expect(400, `POST ${json}`, { headers: JSON_TYPE, body: '{' });
    await expect(412, `POST ${json}`, { headers: { ...JSON_TYPE, 'Stream-Record-Match': '0' }, body: '1' });
    await expect(409, `PUT ${bytes}`, { headers: JSON_TYPE });
    await check('refused writes add nothing', 0, 0, 0);
    await expect(204, `PUT ${bytes}/attrs`, { headers: JSON_TYPE, body: '{"title":"t"}' });
    await expect(200, `GET ${bytes}`);
    await expect(200, `HEAD ${bytes}`);
    await check('attributes and reads add nothing', 0, 0, 0);
    await expect(204, `POST ${bytes}`, { headers: { 'Stream-Closed': 'true' } });
    await check('a close-only append is one unit, no bytes, no record', 0, 0, 1);
    await expect(409, `POST ${bytes}`, { headers: { 'Stream-Closed': 'true' } });
    await expect(409, `POST ${bytes}`, { headers: TEXT, body: 'x' });
    await check('writes to a closed stream add nothing', 0, 0, 0);
    const retainedOfBytes = 1 + UNIT + UNIT + 1 + 3;
    await expect(204, `DELETE ${bytes}`);
    expected.retained_bytes -= retainedOfBytes;
    await check('deletion lowers the gauges only', 0, 0, 0, -1);
    await expect(201, `PUT ${bytes}`, { headers: TEXT, body: 'again' });
    await check('a new life adds to the same counters', 5, 1, 1, 1);
  });

  test('counters survive a restart', async () => {
    const bucket = freshBucket();
    await expect(201, `PUT /${bucket}/s`, { headers: TEXT, body: 'abc' });
    const before = await usage(bucket);
    await server.kill();
    await server.start();
    // fetch may still hold a connection of the killed process; one failed request drops it.
    await ask('GET /__svc/usage', { base: server.adminUrl }).catch(() => undefined);
    assert.deepEqual(await usage(bucket), before);
  });

  test('an unknown bucket has no entry', async () => {
    assert.equal(await usage('never-used'), undefined);
  });
});

serverSuite('metrics, health and headers', { cores: 2, groups: 8 }, ({ server, test, expect, ask, freshBucket }) => {
  test('metrics on both planes', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT, body: 'x' });
    await expect(204, `POST ${path}`, { headers: TEXT, body: 'y' });
    await expect(200, `GET ${path}`);
    for (const base of [server.url, server.adminUrl]) {
      const answer = await expect(200, 'GET /__svc/metrics', { base });
      assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
      const metrics = parse<Record<string, unknown>>(answer);
      assert.equal((metrics['mailbox_depths'] as number[]).length, 2, 'one mailbox depth per core');
      assert.equal(metrics['accepted_appends'], 1);
      assert.equal(metrics['served_reads'], 1);
      assert.deepEqual([metrics['appended_bytes'], metrics['read_bytes']], [1, 2]);
      assert.equal(metrics['cold_hot_bytes'], 2);
      assert.equal(metrics['cold_hot_group_bytes_max'], 2);
      assert.equal(metrics['cold_hot_group_bytes_high_watermark'], 2, 'never below what is there');
      assert.equal(metrics['cold_flush_backlog_age_ms'], 0, 'without a store nothing waits for one');
      assert.equal(
        (metrics['per_core_appends'] as number[]).reduce((sum, appends) => sum + appends, 0),
        1,
      );
      const groups = metrics['raft_groups'] as Record<string, unknown>[];
      assert.deepEqual(
        groups.map((group) => group['raft_group_id']),
        [0, 1, 2, 3, 4, 5, 6, 7],
      );
      for (const group of groups) {
        assert.equal(group['leader'], 1);
        assert.equal(typeof group['last_applied'], 'number');
        assert.deepEqual(group['voter_ids'], [1]);
        const [applied, snapshot, purged] = ['last_applied', 'snapshot_index', 'purged_index'].map(
          (name) => group[name],
        );
        assert((purged as number) <= (snapshot as number) && (snapshot as number) <= (applied as number));
      }
      assert.match(answer.text, /"p99"|p99_/, 'latency percentiles');
      assert.match(answer.text, /"201":\s*\d+/, 'HTTP status counts');
      for (const name of ['process_rss_bytes', 'live_read_waiters']) assert.equal(typeof metrics[name], 'number', name);
    }
  });

  test('health and readiness are on both planes, what operators do on the admin plane only', async () => {
    for (const name of ['health', 'ready']) {
      assert.equal((await ask(`GET /__svc/${name}`, { base: server.adminUrl })).status, 200);
      assert.equal((await ask(`GET /__svc/${name}`)).status, 200, `${name} on the client plane`);
    }
    for (const target of [
      'DELETE /__svc/purge/some-bucket',
      'PUT /__svc/quota/some-bucket',
      'POST /__svc/raft/0/snapshot',
    ]) {
      const { status } = await ask(target);
      assert(status >= 400 && status < 500, `${target} on the client plane: ${status}`);
    }
    assert(
      (await ask('PUT /some-bucket/s', { headers: TEXT, base: server.adminUrl })).status >= 400,
      'no streams on the admin plane',
    );
  });

  test('browser security headers on successes and on errors', async () => {
    const path = `/${freshBucket()}/s`;
    const expected = { 'x-content-type-options': 'nosniff', 'cross-origin-resource-policy': 'cross-origin' };
    assertHeaders(await expect(201, `PUT ${path}`, { headers: TEXT, body: 'x' }), expected);
    assertHeaders(await expect(204, `POST ${path}`, { headers: TEXT, body: 'x' }), expected);
    assertHeaders(await expect(200, `GET ${path}?offset=-1`), expected);
    assertHeaders(await expect(200, `HEAD ${path}`), expected);
    assertHeaders(await expect(404, `GET ${path}-absent`), expected);
    assertHeaders(await expect(400, `POST ${path}`, { headers: TEXT }), expected);
  });

  test('CORS: preflight answered, stream headers exposed', async () => {
    const path = `/${freshBucket()}/s`;
    const headers = {
      Origin: 'http://localhost:3000',
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'content-type,producer-id,stream-seq,if-none-match',
    };
    for (const target of [`OPTIONS ${path}`, `OPTIONS /v1/stream${path}`]) {
      const preflight = await ask(target, { headers });
      assert(preflight.status === 204 || preflight.status === 200, `${target}: ${preflight.status}`);
      assert.match(preflight.headers.get('access-control-allow-origin') ?? '', /^(\*|http:\/\/localhost:3000)$/);
      for (const method of ['GET', 'PUT', 'POST', 'HEAD', 'DELETE']) {
        assert.match(preflight.headers.get('access-control-allow-methods') ?? '', new RegExp(method));
      }
      const allowed = (preflight.headers.get('access-control-allow-headers') ?? '').toLowerCase();
      for (const name of [
        'content-type',
        'if-none-match',
        'stream-seq',
        'stream-closed',
        'producer-id',
        'stream-attrs',
        'stream-record-match',
      ]) {
        assert(allowed.includes(name), `allowed headers must hold ${name}: ${allowed}`);
      }
    }
    const created = await expect(201, `PUT ${path}`, { headers: { ...TEXT, Origin: 'http://localhost:3000' } });
    assert.match(created.headers.get('access-control-allow-origin') ?? '', /^(\*|http:\/\/localhost:3000)$/);
    const exposed = (created.headers.get('access-control-expose-headers') ?? '').toLowerCase();
    for (const name of [
      'stream-next-offset',
      'stream-closed',
      'stream-cursor',
      'stream-up-to-date',
      'etag',
      'location',
      'producer-epoch',
      'stream-record-next',
      'retry-after',
    ]) {
      assert(exposed.includes(name), `exposed headers must hold ${name}: ${exposed}`);
    }
  });

  test('what is no route is 404, what is no method 405 with Allow', async () => {
    await expect(404, 'GET /__svc/nonsense');
    await expect(404, 'GET /__svc/nonsense', { base: server.adminUrl });
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT });
    for (const target of [`PATCH ${path}`, `DELETE ${path}/attrs`, 'POST /__svc/metrics']) {
      assert.match((await expect(405, target)).headers.get('allow') ?? '', /GET/, `Allow of ${target}`);
    }
    assert.equal((await ask('GET /')).status, 404);
    assert.equal((await ask(`GET ${path}/`)).status >= 400, true);
  });
});
