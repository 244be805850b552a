// A purge works from any node, whichever nodes lead the groups, and a repetition finishes one that was cut off.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { TestCluster } from '../support/cluster.ts';
import { patiently } from '../support/patient.ts';
import { requestOnce } from '../support/raw-client.ts';
import { until } from '../support/until.ts';

const TEXT = { 'Content-Type': 'text/plain' } as const;
const GROUPS = 4;
const STREAMS = 24;

describe('purge and quota in a cluster', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create({ groups: GROUPS });
    await cluster.startAll();
  });
  after(() => cluster.dispose());

  async function call(url: string, method: string): Promise<{ status: number; text: string }> {
    const response = await fetch(url, { method });
    return { status: response.status, text: await response.text() };
  }

  async function fill(bucket: string): Promise<void> {
    for (let i = 0; i < STREAMS; i++) {
      await cluster.client((i % 3) + 1).create(`/${bucket}/s${i}`, TEXT, 'x');
    }
  }

  for (const id of [1, 2, 3]) {
    it(`from node ${id}: every group, one report, gone everywhere`, async () => {
      const bucket = `tenant-${id}`;
      await fill(bucket);
      const { admin, client } = cluster.node(id);
      const json = { 'Content-Type': 'application/json' };
      await admin.expect(204, 'PUT', `/__svc/quota/${bucket}`, json, '{"max_streams":1000}');
      const { answer, attempts } = await patiently('the purge', () =>
        requestOnce(cluster.node(id).adminPort, 'DELETE', `/__svc/purge/${bucket}`),
      );
      assert.equal(answer.status, 200, answer.body.toString());
      const report = JSON.parse(answer.body.toString()) as { removed_streams: number; groups_with_streams: number[] };
      // A repetition reports what was left to it.
      assert(report.removed_streams === STREAMS || (attempts > 1 && report.removed_streams < STREAMS));
      if (attempts === 1) assert.deepEqual(report.groups_with_streams, [0, 1, 2, 3]);
      // The node that answered shows it at once, the others soon.
      await client.expect(404, 'GET', `/${bucket}`);
      for (const other of [1, 2, 3]) {
        const { client: otherClient, admin: otherAdmin } = cluster.node(other);
        await until(
          `${bucket} is gone on node ${other}`,
          async () => (await otherClient.request('GET', `/${bucket}`)).status === 404,
        );
        const usage = JSON.parse((await otherAdmin.request('GET', '/__svc/usage')).body.toString()) as {
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
      const again = await admin.expect(200, 'DELETE', `/__svc/purge/${bucket}`);
      assert.deepEqual(JSON.parse(again.body.toString()), {
        bucket,
        removed_streams: 0,
        groups_with_streams: [],
        cold_gc_entries_reclaimed: 0,
      });
    });
  }

  it('a purge that fails half way because a majority is gone is finished by a repetition', async () => {
    await fill('tenant-4');
    for (const id of [2, 3]) await cluster.end(id);
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
    await cluster.client(1).expect(404, 'GET', '/tenant-4');
  });
});
