// Bytes that wait for a majority are bounded: while both followers are silent, the leader accepts what the bound allows
// and refuses the rest immediately. It recovers when they answer again.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';

const WRITERS = 8;
const BODY = Buffer.alloc(512 * 1024, 'x');
const BOUND_BODIES = 2;
const TYPE = { 'Content-Type': 'text/plain' } as const;
const REFUSAL = /wait for a majority/;

test('writes beyond the bound of uncommitted bytes are refused at once while no majority answers', async () => {
  const raft = `max_uncommitted_size_per_group = "1 MiB"`;
  await withCluster({ groups: 1, raft }, async (cluster) => {
    const leader = await cluster.leaderOf(0);
    const { port } = cluster.node(leader);
    await cluster.client(leader).create('/b/s', TYPE);
    const clients = await Promise.all(Array.from({ length: WRITERS }, () => RawClient.connect(port)));
    const others = cluster.ids.filter((id) => id !== leader);
    for (const id of others) cluster.pause(id);
    let refused = 0;
    const answers = clients.map(async (client) => {
      const answer = await client.request('POST', '/b/s', TYPE, BODY);
      if (REFUSAL.test(answer.body.toString())) {
        assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '1']);
        refused++;
      }
      return answer.status;
    });
    await until('refusals', async () => refused >= WRITERS - BOUND_BODIES);
    const metrics = await cluster.metrics(leader);
    assert.equal(metrics['raft_uncommitted_refusals'], refused);
    for (const id of others) cluster.resume(id);
    for (const status of await Promise.all(answers)) assert(status === 204 || status === 503);
    await until(
      'a write is taken again',
      async () => (await requestOnce(port, 'POST', '/b/s', TYPE, BODY)).status === 204,
    );
    for (const client of clients) client.destroy();
  });
});
