// Snapshots, retention and bootstrap through any node, also after the leader of their group has died.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import type { RawResponse } from '../support/raw-client.ts';
import { until } from '../support/until.ts';

const TEXT = { 'Content-Type': 'text/plain' } as const;

async function call(
  cluster: TestCluster,
  id: number,
  method: string,
  path: string,
  body?: string,
): Promise<RawResponse & { text: string }> {
  const answer = await cluster.client(id).request(method, path, TEXT, body);
  return { ...answer, text: answer.body.toString() };
}

it('published through one node, read through the others, kept by the survivors', async () => {
  await withCluster({ process: true, groups: 2 }, async (cluster) => {
    const path = '/demo/s';
    await cluster.client(1).create(path, TEXT);
    for (const id of [1, 2, 3]) await cluster.client(id).append(path, TEXT, `from ${id};`);
    const state = 'state'.repeat(100_000);
    const published = await call(cluster, 2, 'PUT', `${path}/snapshot/14`, state);
    assert.equal(published.status, 204, published.text);
    // The node that answered has it at once, the others have it once they have applied it.
    for (const id of [2, 1, 3]) {
      await until(`node ${id} has the snapshot`, async () => {
        const { status, text } = await call(cluster, id, 'GET', `${path}/snapshot/14`);
        assert(id !== 2 || status === 200);
        return status === 200 && text === state;
      });
    }
    assert.equal((await call(cluster, 3, 'PUT', `${path}/retention/7`)).status, 204);
    assert.equal((await call(cluster, 3, 'GET', `${path}?offset=-1`)).status, 410);
    const leader = await cluster.leaderOf(0);
    await cluster.kill(leader);
    const [left = 0, other = 0] = [1, 2, 3].filter((id) => id !== leader);
    for (const id of [left, other]) {
      await until(`node ${id} bootstraps`, async () => {
        const { status, text, headers } = await call(cluster, id, 'GET', `${path}/bootstrap`);
        if (status !== 200) return false;
        assert(text.includes(state) && text.includes('from 3;') && !text.includes('from 2;'));
        assert.equal(headers.get('stream-next-offset'), '00000000000000000021');
        return true;
      });
    }
    await until('a later snapshot is taken', async () => {
      const { status } = await call(cluster, left, 'PUT', `${path}/snapshot/21`, 'later');
      return status === 204;
    });
    await cluster.restart(leader);
    await until('the node that was away has it', async () => {
      const { status, text } = await call(cluster, leader, 'GET', `${path}/snapshot/21`);
      return status === 200 && text === 'later';
    });
  });
});
