// The flush of one stream by an operator: what a shard is asked, and what the cold tier looks like in the metrics.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { coldSummary } from '../../src/gateway/node-status.ts';
import { requestOnce } from '../support/raw-client.ts';
import { startPlanes } from './planes.ts';
import { QUERIES } from '../../src/protocol/operations.ts';

test('a call reaches the group of its stream, with its numbers or the defaults', async (t) => {
  const { gateway, adminPort } = await startPlanes(t);
  gateway.script = (_asked, reply) => {
    const body = { hot_start_offset: 7, group_commit_index: 3 };
    QUERIES.flushStream.result.write(reply, { outcome: 'done', body });
  };
  const cases: readonly (readonly [path: string, stream: string, least: number, most: number])[] = [
    ['b/s', 's', 1, 8388608],
    ['b/a%2Fb', 'a/b', 1, 8388608],
    ['b/streams', 'streams', 1, 8388608],
    ['b/s?min_hot_bytes=0&max_bytes=100', 's', 0, 100],
    ['b/s?min_hot_bytes=1e3&max_bytes=', 's', 1, 8388608],
    [
      'b/s?min_hot_bytes=9007199254740991&max_bytes=9007199254740991',
      's',
      Number.MAX_SAFE_INTEGER,
      Number.MAX_SAFE_INTEGER,
    ],
    ['b/s?min_hot_bytes=%ff', 's', 1, 8388608],
  ];
  for (const [path, stream, least, most] of cases) {
    const response = await requestOnce(adminPort, 'POST', `/__svc/flush-cold/${path}`);
    assert.equal(response.status, 200, path);
    assert.equal(response.body.toString(), '{"hot_start_offset":7,"group_commit_index":3}');
    const { last } = gateway;
    assert.equal(last.op, QUERIES.flushStream.number);
    const asked = QUERIES.flushStream.request.read(last.query);
    assert.deepEqual(asked, { bucket: 'b', stream, minHotBytes: least, maxBytes: most });
    assert.equal(last.group, gateway.groupOf('b', stream));
  }
});

test('paths that name no stream, and other methods, are refused without asking a shard', async (t) => {
  const { gateway, port, adminPort } = await startPlanes(t);
  const status = async (method: string, path: string): Promise<number> =>
    (await requestOnce(adminPort, method, `/__svc/flush-cold/${path}`)).status;
  assert.equal(await status('GET', 'b/s'), 405);
  assert.equal(await status('POST', 'b'), 404);
  assert.equal(await status('POST', ''), 404);
  assert.equal(await status('POST', 'b/s/attrs'), 404);
  assert.equal(await status('POST', 'b/%00'), 400);
  assert.equal(await status('POST', 'v1/stream/x'), 404);
  assert.equal((await requestOnce(port, 'POST', '/__svc/flush-cold/b/s')).status, 404, 'not on the client plane');
  assert.equal(gateway.asked.length, 0);
});

test('an answer without a body, and one that says why, are passed on', async (t) => {
  const { gateway, adminPort } = await startPlanes(t);
  gateway.script = (_asked, reply) => {
    QUERIES.flushStream.result.write(reply, { outcome: 'nothing-to-do', body: '' });
  };
  const nothing = await requestOnce(adminPort, 'POST', '/__svc/flush-cold/b/s');
  assert.deepEqual([nothing.status, nothing.body.length], [204, 0]);
  gateway.script = (_asked, reply) => {
    QUERIES.flushStream.result.write(reply, { outcome: 'refused', body: 'no store\n' });
  };
  const conflict = await requestOnce(adminPort, 'POST', '/__svc/flush-cold/b/s');
  assert.deepEqual([conflict.status, conflict.body.toString()], [409, 'no store\n']);
});

test('a node is as far as its worst group', () => {
  const group = (id: number, admission: string, age: number | null): Parameters<typeof coldSummary>[0][number] => ({
    raft_group_id: id,
    leader: 1,
    cold_write_admission: admission,
    cold_backlog_age_ms: age,
  });
  const levels = { per_group_cold_hot_bytes: [3, 9, 4], per_group_cold_hot_bytes_max: [30, 9] };
  assert.deepEqual(coldSummary([group(0, 'pressure', null), group(1, 'refusing', 40), group(2, 'open', 7)], levels), {
    cold_write_admission: { state: 'refusing', refusing_groups: [1] },
    cold_flush_backlog_age_ms: 40,
    cold_hot_group_bytes_max: 9,
    cold_hot_group_bytes_high_watermark: 30,
  });
  assert.deepEqual(coldSummary([], {}), {
    cold_write_admission: { state: 'open', refusing_groups: [] },
    cold_flush_backlog_age_ms: 0,
    cold_hot_group_bytes_max: 0,
    cold_hot_group_bytes_high_watermark: 0,
  });
});
