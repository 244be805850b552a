// A cluster under load while the network between its nodes is cut in all ways that are known to hurt. The nodes live
// and clients reach all of them; only what they say to each other is lost, late or broken off.
import { test } from 'node:test';
import { createRandom, seedFromEnvironment, type Random } from '../support/random.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { pause } from './load.ts';
import { firstOfManyWrites, percentile, streamOfEachGroup } from './resume.ts';
import { GROUPS, SCALE, count, underLoad, type Faults } from './under-load.ts';

/** Several elections. */
const CUT_MS_MAX = 1500;
/** Above the six seconds of silence after which a link is given up. */
const LONG_CUT_MS = 6500;

interface Round {
  readonly cluster: TestCluster;
  readonly random: Random;
  readonly faults: Faults;
  readonly streams: readonly string[];
  /** Until writes were taken again, on the side of the majority. */
  readonly resumedMs: number[];
}

type Partition = (round: Round) => Promise<void>;

const others = ({ cluster }: Round, id: number): number[] => cluster.ids.filter((other) => other !== id);

async function isolateLeader(round: Round): Promise<void> {
  const { cluster, random, streams } = round;
  const group = random.int(0, GROUPS - 1);
  const leader = await cluster.leaderOf(group);
  const since = performance.now();
  cluster.network.isolate(leader, cluster.ids);
  count(round.faults, 'leader cut off');
  const through = random.pick(others(round, leader));
  round.resumedMs.push(await firstOfManyWrites(cluster, through, streams[group] as string, since));
  await pause(random.int(0, CUT_MS_MAX / 2));
}

async function isolateFollower(round: Round): Promise<void> {
  const { cluster, random } = round;
  const leader = await cluster.leaderOf(random.int(0, GROUPS - 1));
  cluster.network.isolate(random.pick(others(round, leader)), cluster.ids);
  count(round.faults, 'follower cut off');
  await pause(LONG_CUT_MS);
}

/** One direction between the leader and one node is cut. */
async function oneWay(round: Round): Promise<void> {
  const { cluster, random } = round;
  const leader = await cluster.leaderOf(random.int(0, GROUPS - 1));
  const [from, to] = random.chance(0.5)
    ? [leader, random.pick(others(round, leader))]
    : [random.pick(others(round, leader)), leader];
  cluster.network.cutOneWay(from, to);
  count(round.faults, 'one way cut');
  await pause(random.int(200, CUT_MS_MAX));
}

/** The leader can receive but not send. */
async function dumbLeader(round: Round): Promise<void> {
  const { cluster, random, streams } = round;
  const group = random.int(0, GROUPS - 1);
  const leader = await cluster.leaderOf(group);
  const since = performance.now();
  for (const other of others(round, leader)) cluster.network.cutOneWay(leader, other);
  count(round.faults, 'leader not heard');
  const through = random.pick(others(round, leader));
  round.resumedMs.push(await firstOfManyWrites(cluster, through, streams[group] as string, since));
}

/** Two nodes do not see each other, both see the third. */
async function bridge(round: Round): Promise<void> {
  const { cluster, random } = round;
  const middle = random.pick(cluster.ids);
  const [a, b] = others(round, middle) as [number, number];
  cluster.network.cut(a, b);
  count(round.faults, 'bridge');
  await pause(random.int(200, CUT_MS_MAX));
}

/** Cuts that come and go faster than the cluster can adapt. */
async function flapping(round: Round): Promise<void> {
  const { cluster, random } = round;
  for (let i = 0; i < 8; i++) {
    const victim = random.pick(cluster.ids);
    if (random.chance(0.5)) cluster.network.isolate(victim, cluster.ids);
    else cluster.network.cutOneWay(victim, random.pick(others(round, victim)));
    await pause(random.int(20, 250));
    cluster.network.heal();
    await pause(random.int(0, 100));
  }
  count(round.faults, 'flapping');
}

/** Connections that break and come back, over ways of different slowness. */
async function resets(round: Round): Promise<void> {
  const { cluster, random } = round;
  for (const from of cluster.ids) {
    for (const to of others(round, from)) cluster.network.delay(from, to, random.int(0, 40));
  }
  for (let i = 0; i < 4; i++) {
    const a = random.pick(cluster.ids);
    cluster.network.reset(a, random.pick(others(round, a)));
    await pause(random.int(20, 200));
  }
  count(round.faults, 'resets and delays');
}

/** No node has a majority until the network is healed: writes to the lone node must not be acknowledged and lost. */
async function killBehindCut(round: Round): Promise<void> {
  const { cluster, random } = round;
  const leader = await cluster.leaderOf(random.int(0, GROUPS - 1));
  cluster.network.isolate(random.pick(others(round, leader)), cluster.ids);
  await pause(random.int(50, 300));
  await cluster.kill(leader);
  count(round.faults, 'follower cut off, leader killed');
  await pause(random.int(200, 800));
  // The log of the one that was cut off is behind: it must not win over the one that stayed.
  if (random.chance(0.5)) cluster.network.heal();
  await cluster.restart(leader);
}

const PARTITIONS: readonly Partition[] = [
  isolateLeader,
  isolateFollower,
  oneWay,
  dumbLeader,
  bridge,
  flapping,
  resets,
  killBehindCut,
];

test('partitions between the nodes under load', async () => {
  const random = createRandom(seedFromEnvironment());
  process.stdout.write(`cluster partitions: SEED=${random.seed}\n`);
  await withCluster({ process: true, groups: GROUPS, cores: 2, network: true }, async (cluster) => {
    const resumedMs: number[] = [];
    const streams = await streamOfEachGroup(cluster);
    await underLoad('partitions', cluster, random.seed, async (_, faults) => {
      for (let i = 0; i < SCALE; i++) {
        for (const partition of PARTITIONS) {
          await partition({ cluster, random, faults, streams, resumedMs });
          cluster.network.heal();
          await cluster.ready(cluster.ids);
          await pause(random.int(50, 300));
        }
      }
    });
    process.stdout.write(
      `  cut-off leaders: writes went on after ${percentile(resumedMs, 0.5)} ms (p50), ${percentile(resumedMs, 1)} ms (max)\n`,
    );
  });
});
