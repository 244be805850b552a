// A leader that receives but cannot send: the others notice, lead and accept writes. The times are diagnostics.
import { test } from 'node:test';
import { withCluster, type TestCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { firstOfManyWrites, firstWrite, percentile, streamOfEachGroup } from './resume.ts';

const GROUPS = 3;
const ROUNDS = Number(process.env['CUTS'] ?? 3);

/** Ms until another node says of itself that it leads. */
async function nextLeader(cluster: TestCluster, group: number, former: number, sinceMs: number): Promise<number> {
  await until('another leader', async () => {
    const others = cluster.ids.filter((id) => id !== former);
    const seen = await Promise.all(others.map(async (id) => (await cluster.group(id, group)).leader === id));
    return seen.includes(true);
  });
  return performance.now() - sinceMs;
}

test('writes continue when the leader receives but cannot send', async (t) => {
  await withCluster({ groups: GROUPS, network: true }, async (cluster) => {
    const paths = await streamOfEachGroup(cluster);
    const took: Record<string, number[]> = { 'another leads': [], 'new writes': [], 'one write after the other': [] };
    for (let round = 0; round < ROUNDS; round++) {
      const group = round % GROUPS;
      const path = paths[group] as string;
      const leader = await cluster.leaderOf(group);
      const others = cluster.ids.filter((id) => id !== leader);
      const through = others[round % 2] as number;
      const sinceMs = performance.now();
      for (const other of others) cluster.network.cutOneWay(leader, other);
      const [led, many, one] = await Promise.all([
        nextLeader(cluster, group, leader, sinceMs),
        firstOfManyWrites(cluster, through, path, sinceMs),
        firstWrite(cluster, through, path, sinceMs),
      ]);
      took['another leads']?.push(led);
      took['new writes']?.push(many);
      took['one write after the other']?.push(one);
      cluster.network.heal();
      await cluster.ready();
      await cluster.settled();
    }
    for (const [what, ms] of Object.entries(took)) {
      t.diagnostic(`${what}: ${percentile(ms, 0.5)} ms (p50), ${percentile(ms, 1)} ms (max) after the cut`);
    }
  });
});
