// Measures the cost of large bodies for other writers, and their own speed: small appends to other streams with and
// without two writers of 30 MB, bytes per second against the reference server and the disk, and how long small appends
// wait after the SIGKILL of a leader beside large bodies. Each target runs alone, with fresh data.

import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeBodies } from '../load/fsync.ts';
import { createStreams } from '../load/streams.ts';
import { Writers, type WriterPlace } from '../load/writers.ts';
import { pairsOf } from '../pair.ts';
import { removeFolder, startChild, temporaryFolder } from '../processes.ts';
import { check, type Check, type ScenarioReport } from '../report.ts';
import { type LoadResult, median, medianRatio } from '../stats.ts';
import { leadersPerNode, millraceCluster, millraceClusterBefore } from '../targets/millrace-cluster.ts';
import { millrace, millraceBefore } from '../targets/millrace.ts';
import { referenceFile } from '../targets/reference.ts';
import { streamPath, type Running, type RunningCluster, type Target } from '../targets/target.ts';
import { alternate, compare, rowsOf, selectTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'large-bodies';
const SMALL = { writers: 24, bodyBytes: 256 };
const LARGE = { writers: 2, bodyBytes: 30e6, countMax: 100 };
const MEDIUM = { writers: 4, bodyBytes: 1e6, countMax: 2_000 };
/** Nodes copy, sync and apply these as they do the large ones. */
const SMOKE_BYTES = 2e6;
/** A large body takes a second or more, so a shorter run holds too few. */
const DURATION_MS_MIN = 10_000;
const P99_RATIO_MAX = 4;
const DISK_SHARE_MIN = 0.5;
const RECOVERY_MS_MAX = 5_000;
/** Then it counts as no recovery. */
const RECOVERY_TIMEOUT_MS = 60_000;
const ALONE = ', alone';
const DISK = 'disk';

interface Shape {
  readonly writers: number;
  readonly bodyBytes: number;
  /** Bounds the bytes that a run leaves on the disk. */
  readonly countMax?: number;
}

/** Results by round, of several kinds of run that one start of a target serves. */
class Tables {
  readonly #tables = new Map<string, Map<string, LoadResult[]>>();

  add(table: string, row: string, result: LoadResult): LoadResult {
    const rows = this.of(table);
    rows.set(row, [...(rows.get(row) ?? []), result]);
    return result;
  }

  of(table: string): Map<string, LoadResult[]> {
    const rows = this.#tables.get(table) ?? new Map<string, LoadResult[]>();
    this.#tables.set(table, rows);
    return rows;
  }
}

/** Scaled for the smoke mode. */
function shapesOf({ smoke }: Context): { large: Shape; medium: Shape } {
  if (!smoke) return { large: LARGE, medium: MEDIUM };
  return { large: { ...LARGE, bodyBytes: SMOKE_BYTES }, medium: { ...MEDIUM, bodyBytes: SMOKE_BYTES / 10 } };
}

function largeMs({ smoke, durationMs }: Context): number {
  return smoke ? durationMs : Math.max(durationMs, DURATION_MS_MIN);
}

/** A stream of its own for each writer, over the ports by turns. */
async function placesFor(ports: readonly number[], what: string, { writers }: Shape): Promise<WriterPlace[]> {
  const paths = Array.from({ length: writers }, (_, writer) => streamPath(`${what}-${writer}`));
  await createStreams(ports[0] as number, paths);
  return paths.map((path, writer) => ({ path, port: ports[writer % ports.length] as number }));
}

async function runFor(places: readonly WriterPlace[], shape: Shape, durationMs: number): Promise<LoadResult> {
  const writers = new Writers(places, shape);
  await Promise.race([sleep(durationMs), writers.ended]);
  return await writers.stop();
}

/** Runs `body` on a new start of the target; its data goes at once, for a run writes gigabytes. */
async function withFresh<R extends Running, T>(
  context: Context,
  target: Target<R>,
  body: (running: R) => Promise<T>,
): Promise<T> {
  const dir = temporaryFolder(context.start.dir, NAME);
  // This target's first fsync would pay for the bytes that the one before left unwritten.
  await startChild('sync', ['-f', dir]).exited;
  const running = await target.start({ ...context.start, dir });
  try {
    return await body(running);
  } finally {
    await running.stop();
    removeFolder(dir);
  }
}

/** Small appends alone, then beside the large ones. */
async function measureBeside(context: Context, ports: readonly number[], name: string, tables: Tables): Promise<void> {
  const { large } = shapesOf(context);
  const small = await placesFor(ports, 'small', SMALL);
  const others = await placesFor(ports, 'large', large);
  await runFor(small, SMALL, context.warmUpMs);
  tables.add('beside', `${name}${ALONE}`, await runFor(small, SMALL, context.durationMs));
  const writers = new Writers(others, large);
  const appends = new Writers(small, SMALL);
  await Promise.race([sleep(largeMs(context)), writers.ended]);
  tables.add('beside', name, await appends.stop());
  tables.add('large', name, await writers.stop());
}

/**
 * Kills the node with the most leaderships while large bodies go to the others: the time until every small writer has
 * an acknowledgement of an append that it sent after that.
 */
async function recoveryMs(context: Context, cluster: RunningCluster): Promise<number> {
  const leaders = await leadersPerNode(cluster);
  const victim = cluster.nodes[leaders.indexOf(Math.max(...leaders))];
  if (victim === undefined) throw new Error('no node leads');
  const ports = cluster.nodes.filter((node) => node !== victim).map(({ port }) => port);
  const { large } = shapesOf(context);
  const small = await placesFor(ports, 'survivor', SMALL);
  const writers = new Writers(await placesFor(ports, 'survivor-large', large), large);
  let killedMs = Infinity;
  const waiting = new Set(small.keys());
  let recover: (tookMs: number) => void = () => undefined;
  const recovered = new Promise<number>((resolve) => (recover = resolve));
  const onAcknowledged = (writer: number, sentMs: number): void => {
    if (sentMs >= killedMs && waiting.delete(writer) && waiting.size === 0) recover(performance.now() - killedMs);
  };
  const appends = new Writers(small, { ...SMALL, onAcknowledged });
  await sleep(context.durationMs);
  process.kill(victim.pid, 'SIGKILL');
  killedMs = performance.now();
  const timeout = new AbortController();
  const late = sleep(RECOVERY_TIMEOUT_MS, Infinity, { signal: timeout.signal }).catch(() => Infinity);
  const took = await Promise.race([recovered, late]);
  timeout.abort();
  await Promise.all([appends.stop(), writers.stop()]);
  return took;
}

function besideReport(tables: Tables, name: string, title: string, more: Partial<ScenarioReport>): ScenarioReport {
  const rounds = tables.of('beside');
  const [beside, alone] = [rounds.get(name), rounds.get(`${name}${ALONE}`)];
  const ratio = (pick: (result: LoadResult) => number): number => medianRatio(beside ?? [], alone ?? [], pick);
  const checks: Check[] = [];
  if (beside !== undefined) {
    const p99 = ratio(({ p99Ms }) => p99Ms);
    checks.push(check('p99 beside large bodies / alone', p99, 'x', { atMost: P99_RATIO_MAX }));
    checks.push(...(more.checks ?? []));
  }
  const rates = [...tables.of('large')].map(([row, results]) => {
    const rate = median(results.map(({ bytesPerSecond }) => bytesPerSecond)) / 1e6;
    const refused = results.reduce((sum, { failed }) => sum + failed, 0);
    return `large bodies beside the small ones, ${row}: ${rate.toFixed(1)} MB/s, ${refused} refused`;
  });
  return {
    ...{ scenario: NAME, title, rateUnit: 'appends/s', rows: rowsOf(rounds), checks, pairs: pairsOf(rounds) },
    notes: [...rates, ...(more.notes ?? [])],
  };
}

function throughputReport(tables: Tables, what: string, { writers, bodyBytes }: Shape): ScenarioReport {
  const rounds = tables.of(what);
  const rate = ({ bytesPerSecond }: LoadResult): number => bytesPerSecond;
  const against = (peer: string, atLeast: number): Check[] =>
    compare(rounds, 'millrace', peer, rate, (ratio) => check(`bytes/s / ${peer}`, ratio, 'x', { atLeast }));
  return {
    scenario: NAME,
    title: `one node, ${writers} writers of bodies of ${bodyBytes / 1e6} MB`,
    rateUnit: 'MB/s',
    rows: rowsOf(rounds),
    checks: [...against('reference-file', 1), ...against(DISK, DISK_SHARE_MIN)],
    pairs: pairsOf(rounds),
    notes: ['disk: one writer and an fdatasync for each body, in one file that grows'],
  };
}

async function oneNode(context: Context, tables: Tables): Promise<ScenarioReport[]> {
  const { large, medium } = shapesOf(context);
  const targets = selectTargets(context, NAME, [millrace, millraceBefore, referenceFile]);
  if (targets.length === 0) return [];
  const contestants = [...targets, { name: DISK }] as const;
  await alternate(context, contestants, async (contestant) => {
    if (!('start' in contestant)) return onDisk(context, tables);
    return await withFresh(context, contestant, async ({ name, port }) => {
      await measureBeside(context, [port], name, tables);
      const mediums = await placesFor([port], 'medium', medium);
      tables.add('medium', name, await runFor(mediums, medium, largeMs(context)));
      const larges = await placesFor([port], 'throughput', large);
      return tables.add('throughput', name, await runFor(larges, large, largeMs(context)));
    });
  });
  const title = besideTitle('one node', large);
  return [
    besideReport(tables, 'millrace', title, {}),
    throughputReport(tables, 'medium', medium),
    throughputReport(tables, 'throughput', large),
  ];
}

function onDisk(context: Context, tables: Tables): LoadResult {
  const { large, medium } = shapesOf(context);
  const dir = temporaryFolder(context.start.dir, DISK);
  const write = ({ bodyBytes, countMax = Infinity }: Shape): LoadResult =>
    writeBodies(dir, bodyBytes, context.durationMs, countMax);
  tables.add('medium', DISK, write(medium));
  const result = tables.add('throughput', DISK, write(large));
  removeFolder(dir);
  return result;
}

function besideTitle(nodes: string, { writers, bodyBytes }: Shape): string {
  return `${nodes}, ${SMALL.writers} writers of ${SMALL.bodyBytes} B, beside ${writers} of ${bodyBytes / 1e6} MB and alone`;
}

async function threeNodes(context: Context, tables: Tables): Promise<ScenarioReport[]> {
  const both = [millraceCluster, millraceClusterBefore];
  const selected = new Set<Target>(selectTargets(context, NAME, both));
  const targets = both.filter((target) => selected.has(target));
  if (targets.length === 0) return [];
  const recoveries = new Map<string, number[]>();
  for (let round = 0; round < context.rounds; round++) {
    for (const target of round % 2 === 0 ? targets : targets.toReversed()) {
      await withFresh(context, target, async (cluster) => {
        const ports = cluster.nodes.map(({ port }) => port);
        await measureBeside(context, ports, target.name, tables);
        const took = await recoveryMs(context, cluster);
        recoveries.set(target.name, [...(recoveries.get(target.name) ?? []), took]);
      });
      context.say(`round ${round + 1}/${context.rounds} ${target.name}`);
    }
  }
  const ours = recoveries.get('millrace-cluster') ?? [];
  const what = 'small appends again after SIGKILL of a leader beside large bodies, worst round';
  const checks = [check(what, Math.max(...ours), ' ms', { atMost: RECOVERY_MS_MAX })];
  const notes = [...recoveries].map(
    ([name, all]) => `recovery of each round, ${name}: ${all.map((ms) => ms.toFixed(0)).join(' ')} ms`,
  );
  const title = besideTitle('three nodes', shapesOf(context).large);
  return [besideReport(tables, 'millrace-cluster', title, { checks, notes })];
}

async function run(context: Context): Promise<ScenarioReport[]> {
  return [...(await oneNode(context, new Tables())), ...(await threeNodes(context, new Tables()))];
}

export const largeBodies: Scenario = {
  name: NAME,
  summary: 'small appends beside bodies of 30 MB, bytes/s of large ones, recovery beside them',
  run,
};
