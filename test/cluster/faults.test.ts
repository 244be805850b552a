// A cluster under load while its nodes are killed, stopped and restarted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRandom, seedFromEnvironment, type Random } from '../support/random.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { pause } from './load.ts';
import { GROUPS, SCALE, count, underLoad } from './under-load.ts';

const KILL_ROUNDS = 5 * SCALE;
const STOP_ROUNDS = 3 * SCALE;

async function killAndRestart(cluster: TestCluster, random: Random, ids: readonly number[]): Promise<void> {
  await Promise.all(ids.map((id) => cluster.kill(id)));
  await pause(random.int(0, 800));
  await Promise.all(ids.map((id) => cluster.restart(id)));
}

for (const cores of [1, 2]) {
  test(`SIGKILL of one, two and all nodes under load, --cores ${cores}`, async () => {
    const random = createRandom(seedFromEnvironment());
    process.stdout.write(`cluster faults, kills, --cores ${cores}: SEED=${random.seed}\n`);
    await withCluster({ process: true, groups: GROUPS, cores }, async (cluster) => {
      await underLoad(`kills, --cores ${cores}`, cluster, random.seed, async (_, faults) => {
        for (let round = 0; round < KILL_ROUNDS; round++) {
          await pause(random.int(100, 600));
          const size = [1, 1, 2, 1, 3][round % 5] as number;
          const start = random.int(0, 2);
          const victims = Array.from({ length: size }, (_, i) => 1 + ((start + i) % 3));
          await killAndRestart(cluster, random, victims);
          count(faults, `SIGKILL of ${victims.length}`);
          await cluster.ready(cluster.ids);
        }
      });
    });
  });
}

test('nodes that hang (SIGSTOP) and rolling restarts (SIGTERM) under load', async () => {
  const random = createRandom(seedFromEnvironment());
  process.stdout.write(`cluster faults, stops: SEED=${random.seed}\n`);
  await withCluster({ process: true, groups: GROUPS }, async (cluster) => {
    await underLoad('stops', cluster, random.seed, async (_, faults) => {
      for (let round = 0; round < STOP_ROUNDS; round++) {
        const leader = await cluster.leaderOf(random.int(0, GROUPS - 1));
        cluster.pause(leader);
        await pause(random.int(50, 1200));
        cluster.resume(leader);
        count(faults, 'SIGSTOP of a leader');
        await cluster.ready(cluster.ids);
        await pause(random.int(50, 300));
      }
      for (let round = 0; round < SCALE; round++) {
        for (const id of cluster.ids) {
          assert.equal(await cluster.node(id).stop(), 0, `exit code of node ${id} after SIGTERM`);
          await cluster.restart(id);
          await cluster.ready(cluster.ids);
          count(faults, 'restart');
        }
      }
    });
  });
});
