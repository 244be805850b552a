// A node's death, as clients notice it: groups that it led take writes again after an election, all others go on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TICK_MS } from '../../src/shard/shard.ts';
import { type ClusterOptions, type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { RawClient } from '../support/raw-client.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { pause } from './load.ts';
import { firstWrite, percentile, streamOfEachGroup } from './resume.ts';
import { GROUPS, SCALE } from './under-load.ts';

/** `KILLS=20 npm test -- cluster/failover` makes the figures of src/operator/README.md. */
const IS_MEASURED = process.env['KILLS'] !== undefined;
const KILLS = Number(process.env['KILLS'] ?? (IS_THOROUGH ? 2 : 1) * SCALE);
/** The node that dies in a round; where there is one round, no other one has to be a process. */
const victimOf = (round: number): number => 1 + (round % 3);
const PROCESSES = KILLS === 1 ? [victimOf(0)] : true;
const OPTIONS: ClusterOptions = { process: PROCESSES, groups: GROUPS, ...(IS_MEASURED ? { tickMs: TICK_MS } : {}) };
const FOLLOWER_KILLS = Math.ceil(KILLS / 4);
/** Leaders settle, and the node that came back has caught up. */
const BETWEEN_MS = IS_MEASURED ? 500 : 100;
/** Writes are measured for this long before the death of a follower, and for this long after it. */
const MEASURED_MS = IS_MEASURED ? 3000 : 300;
/** Two streams through each of two nodes are met by all of them. */
const WRITERS = IS_MEASURED ? 8 : 4;
const TEXT = { 'Content-Type': 'text/plain' } as const;

interface Gaps {
  /** For groups that the killed node led: from the kill to the first acknowledgement of a write sent after it. */
  readonly led: number[];
  /** Slowest write around the kill to groups that another node led. */
  readonly others: number[];
}

async function killLeader(cluster: TestCluster, round: number, paths: readonly string[], gaps: Gaps): Promise<void> {
  const victim = victimOf(round);
  // Each node leads one of three groups.
  const leaders = await restingLeaders(cluster, paths.length);
  const alive = cluster.ids.filter((id) => id !== victim);
  const since = performance.now();
  await cluster.kill(victim);
  const writes = paths.map(async (path, group) => {
    const through = alive[(round + group) % alive.length] as number;
    const ms = await firstWrite(cluster, through, path, since);
    (leaders[group] === victim ? gaps.led : gaps.others).push(ms);
  });
  await Promise.all(writes);
  await cluster.restart(victim);
  await cluster.ready(cluster.ids);
  await pause(BETWEEN_MS);
}

async function killLeaders(cluster: TestCluster, paths: readonly string[]): Promise<void> {
  const gaps: Gaps = { led: [], others: [] };
  for (let round = 0; round < KILLS; round++) await killLeader(cluster, round, paths, gaps);
  const { led, others } = gaps;
  process.stdout.write(
    `death of a leader, ${KILLS} kills: its ${led.length} groups took writes again after ${percentile(led, 0.5)} ms (p50), ` +
      `${percentile(led, 0.99)} ms (p99), ${percentile(led, 1)} ms (max); the others (${others.length}) answered within ` +
      `${percentile(others, 1)} ms of the kill\n`,
  );
}

interface Measure {
  stop: boolean;
  /** Where the latencies go at present, in ms. */
  into: number[];
  /** Writes that were not taken at once. */
  refused: number;
}

async function writeSteadily(port: number, path: string, measure: Measure): Promise<void> {
  const client = await RawClient.connect(port);
  while (!measure.stop) {
    const { into } = measure;
    const sentMs = performance.now();
    const answer = await client.request('POST', path, TEXT, 'steady');
    assert([204, 503].includes(answer.status), `${path}: ${answer.status} ${answer.body.toString('utf8')}`);
    if (answer.status === 503) measure.refused++;
    else into.push(performance.now() - sentMs);
  }
  client.destroy();
}

/**
 * The leaders once balancers have nothing to move any more: none of those groups is given to the node that is going to
 * die.
 */
async function restingLeaders(cluster: TestCluster, groups: number): Promise<number[]> {
  const fair = Math.ceil(groups / cluster.ids.length);
  let leaders: number[] = [];
  await until('leaderships are spread', async () => {
    leaders = await Promise.all(Array.from({ length: groups }, (_, group) => cluster.leaderOf(group)));
    return cluster.ids.every((id) => leaders.filter((leader) => leader === id).length <= fair);
  });
  return leaders;
}

async function killFollowers(cluster: TestCluster, paths: readonly string[]): Promise<void> {
  const [before, after]: [number[], number[]] = [[], []];
  for (let round = 0; round < FOLLOWER_KILLS; round++) {
    const victim = victimOf(round);
    const alive = cluster.ids.filter((id) => id !== victim);
    const leaders = await restingLeaders(cluster, paths.length);
    const followed = paths.filter((_, group) => leaders[group] !== victim);
    const kept = cluster.groupIds.filter((group) => leaders[group] !== victim);
    const terms = await cluster.terms(kept);
    const measure: Measure = { stop: false, into: [], refused: 0 };
    const writers = Array.from({ length: WRITERS }, (_, i) =>
      writeSteadily(cluster.node(alive[i % 2] as number).port, followed[(i >> 1) % followed.length] as string, measure),
    );
    // First compilations and elections do not count.
    await pause(MEASURED_MS / 3);
    measure.into = before;
    await pause(MEASURED_MS);
    measure.into = after;
    await cluster.kill(victim);
    await pause(MEASURED_MS);
    measure.stop = true;
    await Promise.all(writers);
    // A machine that stands still changes leaders, and then some writes have to be repeated.
    if (measure.refused > 0) assert.notDeepEqual(await cluster.terms(kept), terms, `${measure.refused} writes refused`);
    await cluster.restart(victim);
    await cluster.ready(cluster.ids);
  }
  process.stdout.write(
    `death of a follower, ${FOLLOWER_KILLS} kills: ${before.length} appends before it p50 ${percentile(before, 0.5)} ms, p99 ` +
      `${percentile(before, 0.99)} ms, max ${percentile(before, 1)} ms; ${after.length} after it p50 ${percentile(after, 0.5)} ms, ` +
      `p99 ${percentile(after, 0.99)} ms, max ${percentile(after, 1)} ms\n`,
  );
}

test('writes resume after the death of a leader, and that of a follower is hardly noticed', async () => {
  await withCluster(OPTIONS, async (cluster) => {
    const paths = await streamOfEachGroup(cluster);
    await killLeaders(cluster, paths);
    await killFollowers(cluster, paths);
  });
});
