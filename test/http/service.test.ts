// Routes that gather from all shards or groups, and the admin plane.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { compareText } from '../../src/base/text.ts';
import { ALL_GROUPS } from '../../src/protocol/request.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import type { ListedStream, UsageRow } from '../../src/protocol/queries/summaries.ts';
import { bearer, bookOf, listed, scopeOf } from '../support/scoped-tokens.ts';
import { until } from '../support/until.ts';
import { startPlanes } from './planes.ts';

const EMPTY = { streams: 0, exists: true, retainedBytes: 0, streamsMax: -1, retainedBytesMax: -1 };

test('a bucket: create, describe, delete', async (t) => {
  const { gateway, client } = await startPlanes(t);
  const created = await fetch(`${client}/demo`, { method: 'PUT', body: 'ignored' });
  assert.deepEqual([created.status, await created.text(), gateway.asked.length], [201, '', 0]);
  gateway.script = (asked, reply) => {
    if (asked.op !== QUERIES.bucket.number) return;
    QUERIES.bucket.result.write(reply, { ...EMPTY, streams: asked.shard === 0 ? 2 : 1 });
  };
  const described = await fetch(`${client}/demo`);
  assert.deepEqual([described.status, await described.json()], [200, { bucket_id: 'demo', streams: 3 }]);
  assert.deepEqual(
    gateway.asked.map(({ group, shard, bucket }) => [group, shard, bucket]),
    [
      [ALL_GROUPS, 0, 'demo'],
      [ALL_GROUPS, 1, 'demo'],
    ],
  );
  assert.equal((await fetch(`${client}/demo`, { method: 'DELETE' })).status, 409);
  gateway.asked.length = 0;
  gateway.script = (asked, reply) => {
    QUERIES.bucket.result.write(reply, EMPTY);
    if (asked.group === 2) reply.code = errorNumber('BUCKET_NOT_FOUND');
  };
  assert.equal((await fetch(`${client}/demo`, { method: 'DELETE' })).status, 204);
  const commands = gateway.asked.filter(({ op }) => op === COMMANDS.deleteBucket.number);
  assert.deepEqual(
    commands.map(({ group }) => group),
    [0, 1, 2, 3],
  );
  gateway.script = () => {};
  assert.equal((await fetch(`${client}/demo`)).status, 404);
  assert.equal((await fetch(`${client}/demo`, { method: 'DELETE' })).status, 404);
  assert.equal((await fetch(`${client}/demo`, { method: 'HEAD' })).status, 404);
  const post = await fetch(`${client}/demo`, { method: 'POST', body: 'x' });
  assert.deepEqual([post.status, post.headers.get('allow')], [405, 'GET, HEAD, PUT, DELETE, OPTIONS']);
  gateway.full = true;
  assert.equal((await fetch(`${client}/demo`)).status, 503);
});

test('listing merges the shards in order and says whether more follow', async (t) => {
  const { gateway, client } = await startPlanes(t);
  const about = { content_type: 'text/plain', tail_offset: 0, created_at_ms: 1, last_write_at_ms: 1 };
  const shown = (stream_id: string): ListedStream => ({ stream_id, status: 'Open', ...about });
  gateway.script = (asked, reply) => {
    QUERIES.list.result.write(reply, (asked.shard === 0 ? ['a', 'c', 'e'] : ['b', 'd']).map(shown));
  };
  const page = (await (await fetch(`${client}/demo/streams?limit=3&prefix=x&after=y`)).json()) as Record<
    string,
    unknown
  >;
  assert.equal(gateway.last.op, QUERIES.list.number);
  const listing = QUERIES.list.request.read(gateway.last.query);
  assert.deepEqual(listing, { bucket: 'demo', limit: 4, prefix: 'x', after: 'y' });
  assert.deepEqual(page, {
    bucket_id: 'demo',
    prefix: 'x',
    stream_count: 3,
    streams: ['a', 'b', 'c'].map(shown),
    next_cursor: 'c',
    has_more: true,
  });
  const all = (await (await fetch(`${client}/demo/streams`)).json()) as Record<string, unknown>;
  assert.deepEqual([all['stream_count'], all['next_cursor'], all['has_more']], [5, null, false]);
  assert.equal((await fetch(`${client}/demo/streams?limit=0`)).status, 400);
  // Bytes count, not characters: as keys of the store these would be too long.
  const euros = encodeURIComponent('€'.repeat(1024));
  for (const query of [`prefix=${euros}`, `after=${euros}`, `prefix=${'p'.repeat(1021)}`]) {
    assert.equal((await fetch(`${client}/demo/streams?${query}`)).status, 400, query.slice(0, 20));
  }
  assert.equal((await fetch(`${client}/demo/streams?prefix=${'p'.repeat(1020)}`)).status, 200);
  assert.equal((await fetch(`${client}/demo/streams`, { method: 'PUT' })).status, 405);
  gateway.script = (_asked, reply) => {
    reply.code = errorNumber('BUCKET_NOT_FOUND');
  };
  assert.equal((await fetch(`${client}/demo/streams`)).status, 404);
});

test('names sort by their UTF-8 bytes', () => {
  const names = ['', 'a', 'a/b', 'ab', 'b', 'é', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{10ffff}'];
  assert.deepEqual([...names].reverse().sort(compareText), names);
  assert.deepEqual(
    [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
    names,
  );
});

test('usage sums the shards', async (t) => {
  const { gateway, client, admin } = await startPlanes(t);
  const meters = {
    committed_append_bytes: 10,
    committed_records: 1,
    committed_write_units: 2,
    retained_bytes: 7,
    stream_count: 1,
  };
  gateway.script = (asked, reply) => {
    const row = (name: string): UsageRow => [name, 10, 1, 2, 7, 1];
    QUERIES.usage.result.write(reply, { hasMore: false, rows: asked.shard === 0 ? [row('a'), row('b')] : [row('b')] });
  };
  for (const plane of [client, admin]) {
    const text = await (await fetch(`${plane}/__svc/usage`)).text();
    const doubled = Object.fromEntries(Object.entries(meters).map(([name, value]) => [name, 2 * value]));
    assert.equal(text, JSON.stringify({ version: 1, write_unit_bytes: 10240, buckets: { a: meters, b: doubled } }));
  }
  assert.equal(gateway.last.op, QUERIES.usage.number);
  gateway.script = (_asked, reply) => {
    reply.code = errorNumber('NO_LEADER');
  };
  assert.equal((await fetch(`${client}/__svc/usage`)).status, 503);
});

test('usage for a token whose scopes name buckets asks for these alone', async (t) => {
  const long = 'x'.repeat(1000);
  const clientTokens = bookOf([
    listed('two', [scopeOf('b', '*', 'list'), scopeOf('a', '*', 'list'), scopeOf('a', '*', 'read', 'list')]),
    listed('none', [scopeOf('*', 'a*', 'list'), scopeOf('c', '*', 'read'), scopeOf(`${long}é${long}`, '*', 'list')]),
    listed('all', [scopeOf('*', '*', 'list'), scopeOf('a', '*', 'list')]),
  ]);
  const { gateway, client } = await startPlanes(t, { clientToken: 'root'.repeat(8), clientTokens });
  gateway.script = ({ shard }, reply) => {
    const rows: UsageRow[] = ['a', 'b', 'c'].map((name) => [name, 1, 1, 1, 1, 1]);
    QUERIES.usage.result.write(reply, { hasMore: false, rows: shard === 0 ? rows : [] });
  };
  const askedBy = async (token: string): Promise<unknown> => {
    gateway.asked.length = 0;
    const told = await (await fetch(`${client}/__svc/usage`, { headers: bearer(token) })).json();
    const asked = gateway.asked.map(({ query }) => QUERIES.usage.request.read(query).names?.toSorted());
    return [asked, Object.keys((told as { buckets: object }).buckets)];
  };
  const both = ['a', 'b'];
  assert.deepEqual(await askedBy('two'), [[both, both], both]);
  assert.deepEqual(await askedBy('none'), [[], []]);
  assert.deepEqual(await askedBy('all'), [
    [undefined, undefined],
    ['a', 'b', 'c'],
  ]);
});

test('usage asks for no more pages when its reader is gone', async (t) => {
  const { gateway, client, planes } = await startPlanes(t);
  gateway.script = () => false;
  const leaving = new AbortController();
  const left = assert.rejects(fetch(`${client}/__svc/usage`, { signal: leaving.signal }));
  await until('both shards are asked', () => gateway.heldCount === 2);
  leaving.abort();
  await left;
  await until('it is forgotten', () => planes.openRequests() === 0);
  const page: typeof gateway.script = ({ shard }, reply) => {
    const name = `b${String(gateway.asked.length).padStart(9, '0')}-${shard}`;
    QUERIES.usage.result.write(reply, { hasMore: gateway.asked.length < 100, rows: [[name, 1, 1, 1, 1, 1]] });
  };
  gateway.script = page;
  gateway.release(page);
  await (await fetch(`${client}/__svc/healthz`)).text();
  assert.equal(gateway.asked.filter(({ op }) => op === QUERIES.usage.number).length, 2);
});

test('metrics merge groups and counters', async (t) => {
  const { gateway, client, admin } = await startPlanes(t);
  gateway.script = (asked, reply) => {
    const shard = asked.shard ?? 0;
    QUERIES.status.result.write(reply, {
      raft_groups: [
        { raft_group_id: shard + 2, leader: 1, voter_ids: [1], last_applied: 5 },
        { raft_group_id: shard, leader: 1, voter_ids: [1], last_applied: 4 },
      ],
      counters: { accepted_appends: 10, turns: shard },
      per_group: { per_group_appends: shard === 0 ? [1, 0, 3, 0] : [0, 2, 0, 4] },
      disk_full: shard === 0,
    });
  };
  const metrics = (await (await fetch(`${client}/__svc/metrics`)).json()) as Record<string, unknown>;
  assert.equal(gateway.last.op, QUERIES.status.number);
  const groups = metrics['raft_groups'] as { raft_group_id: number }[];
  assert.deepEqual(
    groups.map((group) => group.raft_group_id),
    [0, 1, 2, 3],
  );
  assert.deepEqual([metrics['accepted_appends'], metrics['turns'], metrics['raft_group_count']], [20, 1, 4]);
  assert.deepEqual(metrics['per_group_appends'], [1, 2, 3, 4]);
  assert.deepEqual([metrics['mailbox_depths'], metrics['disk_full'], metrics['node_id']], [[1, 2], true, 1]);
  assert.deepEqual(metrics['cold_write_admission'], { state: 'open', refusing_groups: [] });
  assert((metrics['process_rss_bytes'] as number) > 0);
  const again = (await (await fetch(`${admin}/__svc/metrics`)).json()) as Record<string, unknown>;
  assert.deepEqual(again['responses_by_status'], { 200: 1 });
  assert.equal((await fetch(`${client}/__svc/metrics`, { method: 'POST' })).headers.get('allow'), 'GET, HEAD, OPTIONS');
});

test('admin plane: health and readiness, and no stream routes', async (t) => {
  const { gateway, admin, client } = await startPlanes(t);
  assert.deepEqual(await (await fetch(`${admin}/__svc/health`)).json(), { status: 'up' });
  let leader: number | null = 1;
  gateway.script = (asked, reply) => {
    const group = (asked.shard ?? 0) * 2;
    QUERIES.status.result.write(reply, {
      raft_groups: [
        { raft_group_id: group, leader: 1, voter_ids: [1] },
        { raft_group_id: group + 1, leader, voter_ids: [1] },
      ],
    });
  };
  assert.equal((await fetch(`${admin}/__svc/ready`)).status, 200);
  leader = null;
  const waiting = await fetch(`${admin}/__svc/ready`);
  assert.deepEqual([waiting.status, waiting.headers.get('retry-after')], [503, '1']);
  assert.deepEqual(((await waiting.json()) as Record<string, unknown>)['leaderless_groups'], [1, 3]);
  gateway.script = (_asked, reply) => {
    QUERIES.status.result.write(reply, { raft_groups: [{ raft_group_id: 0, leader: 1, voter_ids: [1] }] });
  };
  assert.equal((await fetch(`${admin}/__svc/ready`)).status, 503, 'two groups are missing');
  assert.equal((await fetch(`${admin}/demo/s`, { method: 'PUT' })).status, 404);
  const shown = await fetch(`${client}/__svc/ready`);
  assert.deepEqual([shown.status, await shown.json()], [503, { ready: false }], 'clients are told whether, not why');
});

test('a shard that answers nonsense gives 500, and the node goes on', async (t) => {
  const { gateway, client, errors } = await startPlanes(t);
  gateway.script = (_asked, reply) => {
    // An array of two, which are missing.
    reply.body = Uint8Array.of(0x92);
  };
  assert.equal((await fetch(`${client}/__svc/usage`)).status, 500);
  assert.equal(errors.splice(0).length, 1);
  assert.equal((await fetch(`${client}/demo`, { method: 'PUT' })).status, 201);
});

test('cluster probe takes any body', async (t) => {
  const { client } = await startPlanes(t);
  const response = await fetch(`${client}/__svc/cluster-probe`, { method: 'POST', body: Buffer.alloc(1_000_000) });
  assert.deepEqual([response.status, await response.text()], [200, '']);
  assert.equal((await fetch(`${client}/__svc/cluster-probe`)).status, 405);
});
