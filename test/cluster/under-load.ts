// Clients of a cluster while something is done to it, and the judgement afterwards: every node holds every acknowledged
// append once and in order, and no reader was ever shown a byte that is not there.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { readAll } from '../crash/look.ts';
import type { TestCluster } from '../support/cluster.ts';
import { follow, followEvents } from './follow.ts';
import { Shown, type StreamHistory, type Tally, checkStream, newStream, newTally } from './history.ts';
import { type Load, newLoad, write } from './load.ts';

export const GROUPS = 3;
/** More of everything for a long run. */
export const SCALE = Number(process.env['FAULTS'] ?? 1);
const BUCKET = 'faults';
const WRITERS = 4;
const OWN_STREAMS = 3;
const SHARED_STREAMS = 3;
const TEXT = { 'Content-Type': 'text/plain' } as const;

/** How often each kind of fault happened. */
export type Faults = Map<string, number>;

export function count(faults: Faults, kind: string): void {
  faults.set(kind, (faults.get(kind) ?? 0) + 1);
}

/** Runs `act` under load; when the clients have stopped, everything is checked and a summary printed. */
export async function underLoad(
  name: string,
  cluster: TestCluster,
  seed: number,
  act: (load: Load, faults: Faults) => Promise<void>,
  /** The node that may refuse with 507. */
  fullNode?: number,
): Promise<Tally> {
  const since = performance.now();
  const shared = Array.from({ length: SHARED_STREAMS }, (_, i) => newStream(BUCKET, `shared-${i}`));
  const own = Array.from({ length: WRITERS }, (_, writer) =>
    Array.from({ length: OWN_STREAMS }, (__, i) => newStream(BUCKET, `w${writer}-${i}`)),
  );
  const streams = [...shared, ...own.flat()];
  await createAll(cluster, streams);
  const load = newLoad(cluster, BUCKET, fullNode);
  const silence = load.silences.open();
  const work = [
    ...own.map((mine, id) => write(load, id, [...mine, ...shared], id % 2 === 0, seed + 10 * id)),
    ...shared.map((stream, i) => follow(load, stream, seed + 1000 + i)),
    ...shared.map((stream, i) => followEvents(load, stream, seed + 2000 + i)),
  ];
  const faults: Faults = new Map();
  // A failure of a client ends the test at once, not after all faults.
  const all = Promise.all(work);
  try {
    await Promise.race([act(load, faults), all]);
    load.stop();
  } catch (error) {
    load.stop();
    await Promise.allSettled(work);
    throw error;
  }
  const silenceMs = Math.round(load.silences.close(silence));
  const results = await all;
  await cluster.ready(cluster.ids);
  await cluster.settled(cluster.ids);
  const tally = newTally();
  const contents = await contentsOfAll(cluster, streams);
  for (const stream of streams) checkStream(stream, contents.get(stream) as Buffer, tally);
  for (const [i, shown] of results.slice(WRITERS).entries()) {
    const stream = shared[i % SHARED_STREAMS] as StreamHistory;
    if (shown instanceof Shown) shown.check(stream, contents.get(stream) as Buffer, tally);
  }
  assert(tally.acknowledged > 100, 'the load must be real');
  const list = (counts: Iterable<readonly [unknown, number]>): string =>
    [...counts].map(([what, times]) => `${String(what)}: ${times}`).join(', ');
  process.stdout.write(
    `${name}: ${Math.round((performance.now() - since) / 1000)} s; ${list(faults)}\n` +
      `  ${tally.acknowledged} appends acknowledged, none lost, doubled or moved; without an answer: ${tally.unknownPresent} took ` +
      `effect, ${tally.unknownAbsent} did not; ${tally.refused} refused; live readers saw ${tally.reads} bytes, all of them still ` +
      `there\n  longest time without an acknowledgement in a group: ${silenceMs} ms; answers by status: ` +
      `${list([...load.statuses].sort(([a], [b]) => a - b))}\n`,
  );
  return tally;
}

async function createAll(cluster: TestCluster, streams: readonly StreamHistory[]): Promise<void> {
  for (const { path } of streams) await cluster.client(1).create(path, TEXT);
  await cluster.settled();
}

/** The first node's contents, after seeing that the others hold the same. */
async function contentsOfAll(
  cluster: TestCluster,
  streams: readonly StreamHistory[],
): Promise<Map<StreamHistory, Buffer>> {
  const contents = new Map<StreamHistory, Buffer>();
  for (const id of cluster.ids) {
    for (const stream of streams) {
      const found = await readAll(cluster.client(id), stream.path, false);
      assert(found !== undefined, `node ${id} has ${stream.name}`);
      const [before, content] = [contents.get(stream), Buffer.from(found.content)];
      if (before === undefined) contents.set(stream, content);
      else assert(before.equals(content), `node ${id} holds other bytes of ${stream.name} than node 1`);
    }
  }
  return contents;
}
