// A cluster under load while its nodes are killed, stopped and restarted. In the end every node holds every acknowledged
// append once and in order, and no reader was ever shown a byte that is not there.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { readAll } from '../crash/look.ts';
import { createRandom, seedFromEnvironment, type Random } from '../support/random.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { checkStream, newStream, newTally, type StreamHistory, type Tally } from './history.ts';
import { type Load, follow, followEvents, pause, write } from './load.ts';

const GROUPS = 4;
const WRITERS = 12;
const OWN_STREAMS = 6;
const SHARED_STREAMS = 3;
const TEXT = { 'Content-Type': 'text/plain' } as const;
/** More of everything for a long run: FAULTS=8 makes about fifteen minutes. */
const SCALE = Number(process.env['FAULTS'] ?? 1);
const KILL_ROUNDS = 8 * SCALE;
const STOP_ROUNDS = 4 * SCALE;
const LEADER_KILLS = 8 * SCALE;
/** Beyond it a group counts as dead; what it usually takes is printed. */
const RESUME_MS_MAX = 30_000;

async function load(cluster: TestCluster, seed: number, faults: (load: Load) => Promise<void>): Promise<Tally> {
  const shared = Array.from({ length: SHARED_STREAMS }, (_, i) => newStream('faults', `shared-${i}`));
  const own = Array.from({ length: WRITERS }, (_, writer) =>
    Array.from({ length: OWN_STREAMS }, (__, i) => newStream('faults', `w${writer}-${i}`)),
  );
  const streams = [...shared, ...own.flat()];
  await createAll(cluster, streams);
  const state: Load = { stop: false, cluster, statuses: new Map() };
  const work = [
    ...own.map((mine, id) => write(state, id, [...mine, ...shared], id % 2 === 0, seed + 10 * id)),
    ...shared.map((stream, i) => follow(state, stream, seed + 1000 + i)),
    ...shared.map((stream, i) => followEvents(state, stream, seed + 2000 + i)),
  ];
  // A failure of a client ends the test at once, not after all faults.
  const all = Promise.all(work);
  try {
    await Promise.race([faults(state), all]);
    state.stop = true;
  } catch (error) {
    state.stop = true;
    await Promise.allSettled(work);
    throw error;
  }
  const results = await all;
  await cluster.ready(cluster.ids);
  await cluster.settled(cluster.ids);
  const tally = newTally();
  const contents = await contentsOfAll(cluster, streams);
  for (const stream of streams) checkStream(stream, contents.get(stream) as string, tally);
  shared.forEach((stream, i) => {
    const whole = contents.get(stream) as string;
    for (const [how, at] of [
      ['long-polls', WRITERS],
      ['events', WRITERS + SHARED_STREAMS],
    ] as const) {
      const shown = results[at + i] as string;
      assert(whole.startsWith(shown), `${stream.name}: ${how} showed bytes that are not there in the end`);
      tally.reads += shown.length;
    }
  });
  const statuses = [...state.statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`);
  process.stdout.write(`  answers by status: ${statuses.join(', ')}\n`);
  return tally;
}

async function createAll(cluster: TestCluster, streams: readonly StreamHistory[]): Promise<void> {
  const client = await RawClient.connect(cluster.node(1).port);
  for (const { path } of streams) assert.equal((await client.request('PUT', path, TEXT)).status, 201);
  client.destroy();
  await cluster.settled();
}

/** What the first node holds, after seeing that the others hold the same. */
async function contentsOfAll(
  cluster: TestCluster,
  streams: readonly StreamHistory[],
): Promise<Map<StreamHistory, string>> {
  const contents = new Map<StreamHistory, string>();
  for (const id of cluster.ids) {
    const client = await RawClient.connect(cluster.node(id).port);
    for (const stream of streams) {
      const found = await readAll(client, stream.path, false);
      assert(found !== undefined, `node ${id} has ${stream.name}`);
      const before = contents.get(stream);
      if (before === undefined) contents.set(stream, found.content);
      else assert(before === found.content, `node ${id} holds other bytes of ${stream.name} than node 1`);
    }
    client.destroy();
  }
  return contents;
}

async function killAndRestart(cluster: TestCluster, random: Random, ids: readonly number[]): Promise<void> {
  await Promise.all(ids.map((id) => cluster.kill(id)));
  await pause(random.int(0, 3000));
  await Promise.all(ids.map((id) => cluster.restart(id)));
}

function report(name: string, tally: Tally, since: number): void {
  assert(tally.acknowledged > 100, 'the load must be real');
  process.stdout.write(
    `${name}: ${Math.round((performance.now() - since) / 1000)} s, ${tally.acknowledged} appends acknowledged, none lost, ` +
      `doubled or moved; without an answer: ${tally.unknownPresent} took effect, ${tally.unknownAbsent} did not; ` +
      `${tally.refused} refused; live readers saw ${tally.reads} bytes, all of them still there\n`,
  );
}

for (const cores of [1, 2]) {
  test(`SIGKILL of one, two and all nodes under load, --cores ${cores}`, async () => {
    const random = createRandom(seedFromEnvironment());
    process.stdout.write(`cluster faults, kills, --cores ${cores}: SEED=${random.seed}\n`);
    const since = performance.now();
    await withCluster({ groups: GROUPS, cores }, async (cluster) => {
      const tally = await load(cluster, random.seed, async () => {
        for (let round = 0; round < KILL_ROUNDS; round++) {
          await pause(random.int(300, 2000));
          const count = round % 8 === 7 ? 3 : round % 4 === 3 ? 2 : 1;
          const start = random.int(0, 2);
          const victims = Array.from({ length: count }, (_, i) => 1 + ((start + i) % 3));
          await killAndRestart(cluster, random, victims);
          await cluster.ready(cluster.ids);
        }
      });
      report(`kills, --cores ${cores}`, tally, since);
    });
  });
}

test('nodes that hang (SIGSTOP) and rolling restarts (SIGTERM) under load', async () => {
  const random = createRandom(seedFromEnvironment());
  process.stdout.write(`cluster faults, stops: SEED=${random.seed}\n`);
  const since = performance.now();
  await withCluster({ groups: GROUPS }, async (cluster) => {
    const tally = await load(cluster, random.seed, async () => {
      for (let round = 0; round < STOP_ROUNDS; round++) {
        const leader = await cluster.leaderOf(random.int(0, GROUPS - 1));
        cluster.pause(leader);
        await pause(random.int(200, 5000));
        cluster.resume(leader);
        await cluster.ready(cluster.ids);
        await pause(random.int(100, 800));
      }
      for (let round = 0; round < SCALE; round++) {
        for (const id of cluster.ids) {
          assert.equal(await cluster.node(id).stop(), 0, `exit code of node ${id} after SIGTERM`);
          await cluster.restart(id);
          await cluster.ready(cluster.ids);
        }
      }
    });
    report('stops', tally, since);
  });
});

interface Gaps {
  /** Of groups that the killed node led: from the kill to the first acknowledgement of a write sent after it. */
  readonly led: number[];
  /** Slowest write around the kill to groups that another node led. */
  readonly others: number[];
}

/** A stream of each group. */
function streamOfEachGroup(): string[] {
  const names: string[] = [];
  for (let i = 0; names.filter((name) => name !== undefined).length < GROUPS; i++) {
    names[fnv1a64mod('gap', `s${i}`, GROUPS)] ??= `s${i}`;
  }
  return names;
}

/** Writes to one group through a living node until one is acknowledged; each write gets half a second. */
async function firstWrite(cluster: TestCluster, through: number, name: string, since: number): Promise<number> {
  for (;;) {
    const sentMs = performance.now();
    const answer = await requestOnce(cluster.node(through).port, 'POST', `/gap/${name}`, TEXT, '.').catch(
      () => undefined,
    );
    if (answer?.status === 204) return performance.now() - since;
    assert(answer === undefined || answer.status === 503, `a write after a kill: ${answer?.status}`);
    assert(sentMs - since < RESUME_MS_MAX, `writes to ${name} did not resume within ${RESUME_MS_MAX} ms`);
    await pause(5);
  }
}

async function killOnce(cluster: TestCluster, round: number, names: readonly string[], gaps: Gaps): Promise<void> {
  const victim = await cluster.leaderOf(round % GROUPS);
  const leaders = await Promise.all(names.map((_, group) => cluster.leaderOf(group)));
  const alive = cluster.ids.filter((id) => id !== victim);
  const since = performance.now();
  await cluster.kill(victim);
  const writes = names.map(async (name, group) => {
    const through = alive[(round + group) % alive.length] as number;
    const ms = await firstWrite(cluster, through, name, since);
    (leaders[group] === victim ? gaps.led : gaps.others).push(ms);
  });
  await Promise.all(writes);
  await cluster.restart(victim);
  await cluster.ready(cluster.ids);
  await pause(500);
}

test('writes resume after the death of a leader', async () => {
  await withCluster({ groups: GROUPS }, async (cluster) => {
    const names = streamOfEachGroup();
    for (const name of names) {
      assert.equal((await requestOnce(cluster.node(1).port, 'PUT', `/gap/${name}`, TEXT)).status, 201);
    }
    const gaps: Gaps = { led: [], others: [] };
    for (let round = 0; round < LEADER_KILLS; round++) await killOnce(cluster, round, names, gaps);
    const at = (values: number[], part: number): number =>
      Math.round([...values].sort((a, b) => a - b)[Math.ceil(part * values.length) - 1] ?? Number.NaN);
    process.stdout.write(
      `death of a leader, ${LEADER_KILLS} kills: its ${gaps.led.length} groups took writes again after ${at(gaps.led, 0.5)} ms (p50), ` +
        `${at(gaps.led, 0.99)} ms (p99); the others (${gaps.others.length}) answered within ${at(gaps.others, 1)} ms of the kill\n`,
    );
  });
});
