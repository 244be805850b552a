// The disk of one node of three is full, under load: the others continue without it, its groups find other leaders, and
// with free space it catches up and takes part as before.
import { test } from 'node:test';
import { type SmallDisk, mountSmallDisk } from '../crash/small-disk.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { pause } from './load.ts';
import { firstWrite, percentile, streamOfEachGroup } from './resume.ts';
import { SCALE, count, underLoad, type Faults } from './under-load.ts';

/** Two for each node, so that the balancer sees to it that every node leads some. */
const GROUPS = 6;
const DISK_BYTES = 64 * 1024 * 1024;
const FILLER = 'filler';
const VICTIM = 1;
/** Below the reserve that a node keeps for deletes, above nothing: it refuses, but still can write. */
const ALMOST_FULL_BYTES = 2 * 1024 * 1024;
const WRITES_AFTER = 10;
const TEXT = { 'Content-Type': 'text/plain' } as const;

const leads = async (cluster: TestCluster): Promise<boolean> =>
  (await cluster.groups(VICTIM)).some(({ leader }) => leader === VICTIM);

function fill(disk: SmallDisk, leaveBytes: number): void {
  try {
    disk.fill(FILLER, disk.freeBytes() - leaveBytes);
  } catch (error) {
    // The node took the last bytes itself meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}

/**
 * Resolves with the ms until each group took writes through the other nodes. `dies`: SIGKILL, and a start on the full
 * disk.
 */
async function fillAndFree(
  cluster: TestCluster,
  disk: SmallDisk,
  leaveBytes: number,
  paths: readonly string[],
  dies: boolean,
): Promise<number[]> {
  await until(`node ${VICTIM} leads`, () => leads(cluster));
  const healthy = cluster.ids.filter((id) => id !== VICTIM);
  fill(disk, leaveBytes);
  const since = performance.now();
  await until(`the full node ${VICTIM} leads nothing`, async () => {
    for (const id of healthy) {
      if ((await cluster.groups(id)).some(({ leader }) => leader === VICTIM || leader === null)) return false;
    }
    return true;
  });
  const resumed = await Promise.all(
    paths.map((path, group) => firstWrite(cluster, healthy[group % 2] as number, path, since)),
  );
  for (let i = 0; i < WRITES_AFTER; i++) {
    for (const [group, path] of paths.entries()) {
      const through = healthy[(group + i) % 2] as number;
      await cluster.client(through).append(path, TEXT, '.');
    }
  }
  await pause(300);
  if (dies) {
    await cluster.kill(VICTIM);
    await cluster.restart(VICTIM);
    await pause(300);
  }
  disk.remove(FILLER);
  await cluster.ready(cluster.ids);
  return resumed;
}

test('a full disk of one node blocks no writes', async (t) => {
  const random = createRandom(seedFromEnvironment());
  process.stdout.write(`cluster with a full disk: SEED=${random.seed}\n`);
  const resumedMs: number[] = [];
  for (let round = 0; round < SCALE; round++) {
    // A disk and a cluster for each round, for what the load writes has to fit.
    const { disk, reason } = await mountSmallDisk(DISK_BYTES);
    if (disk === undefined) return t.skip(reason);
    const disks = new Map([[VICTIM, disk]]);
    try {
      await withCluster({ process: [VICTIM], groups: GROUPS, disks }, async (cluster) => {
        const paths = await streamOfEachGroup(cluster);
        const act = async (_: unknown, faults: Faults): Promise<void> => {
          resumedMs.push(...(await fillAndFree(cluster, disk, ALMOST_FULL_BYTES, paths, false)));
          count(faults, 'disk almost full');
          resumedMs.push(...(await fillAndFree(cluster, disk, 0, paths, true)));
          count(faults, 'disk full, then SIGKILL');
          await until('the node with room leads again', () => leads(cluster));
        };
        await underLoad('full disk', cluster, random.seed + round, act, VICTIM);
      });
    } finally {
      await disk.dispose();
    }
  }
  process.stdout.write(
    `  full disk: every group took writes through the other nodes after ${percentile(resumedMs, 0.5)} ms (p50), ` +
      `${percentile(resumedMs, 1)} ms (max)\n`,
  );
});
