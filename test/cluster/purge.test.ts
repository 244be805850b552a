// A purge works from any node, whichever nodes lead the groups, and a repetition finishes one that was cut off.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { TestCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';

const TEXT = { 'Content-Type': 'text/plain' } as const;
const GROUPS = 8;
const STREAMS = 60;

describe('purge and quota in a cluster', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create({ groups: GROUPS });
    await cluster.startAll();
  });
  after(() => cluster.dispose());

  async function call(url: string, method: string, init: RequestInit = {}): Promise<{ status: number; text: string }> {
    const response = await fetch(url, { method, ...init });
    return { status: response.status, text: await response.text() };
  }

  async function fill(bucket: string): Promise<void> {
    for (let i = 0; i < STREAMS; i++) {
      const { url } = cluster.node((i % 3) + 1);
      const { status, text } = await call(`${url}/${bucket}/s${i}`, 'PUT', { headers: TEXT, body: 'x' });
      assert.equal(status, 201, text);
    }
  }

  for (const id of [1, 2, 3]) {
    it(`from node ${id}: every group, one report, gone everywhere`, async () => {
      const bucket = `tenant-${id}`;
      await fill(bucket);
      const node = cluster.node(id);
      const quota = await call(`${node.adminUrl}/__svc/quota/${bucket}`, 'PUT', {
        headers: { 'Content-Type': 'application/json' },
        body: '{"max_streams":1000}',
      });
      assert.equal(quota.status, 204, quota.text);
      const { status, text } = await call(`${node.adminUrl}/__svc/purge/${bucket}`, 'DELETE');
      assert.equal(status, 200, text);
      const report = JSON.parse(text) as { removed_streams: number; groups_with_streams: number[] };
      assert.equal(report.removed_streams, STREAMS);
      assert.deepEqual(report.groups_with_streams, [0, 1, 2, 3, 4, 5, 6, 7]);
      // The node that answered shows it at once, the others soon.
      assert.equal((await call(`${node.url}/${bucket}`, 'GET')).status, 404);
      for (const other of [1, 2, 3]) {
        const { url, adminUrl } = cluster.node(other);
        await until(
          `${bucket} is gone on node ${other}`,
          async () => (await call(`${url}/${bucket}`, 'GET')).status === 404,
        );
        const usage = JSON.parse((await call(`${adminUrl}/__svc/usage`, 'GET')).text) as {
          buckets: Record<string, Record<string, number>>;
        };
        assert.deepEqual(usage.buckets[bucket], {
          committed_append_bytes: STREAMS,
          committed_records: STREAMS,
          committed_write_units: STREAMS,
          retained_bytes: 0,
          stream_count: 0,
        });
      }
      const again = await call(`${node.adminUrl}/__svc/purge/${bucket}`, 'DELETE');
      assert.deepEqual(JSON.parse(again.text), {
        bucket,
        removed_streams: 0,
        groups_with_streams: [],
        cold_gc_entries_reclaimed: 0,
      });
    });
  }

  it('a purge that fails half way because a majority is gone is finished by a repetition', async () => {
    await fill('tenant-4');
    for (const id of [2, 3]) await cluster.kill(id);
    const { adminUrl } = cluster.node(1);
    const failed = await call(`${adminUrl}/__svc/purge/tenant-4`, 'DELETE');
    assert.equal(failed.status, 503, failed.text);
    assert.match(failed.text, /repeat the purge/);
    for (const id of [2, 3]) await cluster.restart(id);
    await until('the cluster leads again', async () => {
      const { status, text } = await call(`${adminUrl}/__svc/purge/tenant-4`, 'DELETE');
      assert([200, 503].includes(status), text);
      return status === 200;
    });
    assert.equal((await call(`${cluster.node(1).url}/tenant-4`, 'GET')).status, 404);
  });
});
