// Durable appends of many independent writers: one stream per connection, one append in flight per connection.

import { withCpu } from '../cpu.ts';
import { measureFsync, type FsyncFigures } from '../load/fsync.ts';
import { redisBenchmarkMissing, runRedisBenchmark } from '../load/redis-benchmark.ts';
import { createStreams } from '../load/streams.ts';
import { runWrk, wrkMissing, writePaths } from '../load/wrk.ts';
import { pairsOf } from '../pair.ts';
import { check, formatMs, type Check, type ScenarioReport } from '../report.ts';
import { type LoadResult, type Rounds, median } from '../stats.ts';
import { bare } from '../targets/bare.ts';
import { TOKEN_TARGETS, millraceLimits } from '../targets/millrace-access.ts';
import { millrace, millraceBefore } from '../targets/millrace.ts';
import { redis } from '../targets/redis.ts';
import { referenceFile } from '../targets/reference.ts';
import { streamPath, type Running } from '../targets/target.ts';
import { alternate, compare, rowsOf, selectTargets, withTargets, type Context, type Scenario } from './scenario.ts';

const PAYLOAD_BYTES = 256;
/** So much of the rate without a token is left with one. */
const TOKEN_GOAL = 0.97;
/** Enough fsyncs (thousands on a good disk) for a p99 that means something. */
const FSYNC_PROBE_MS = 500;

/** One measured run against a running target; the streams exist. */
async function measureAppends(
  context: Context,
  target: Running,
  streams: number,
  pathsFile: string,
  durationMs: number,
): Promise<LoadResult> {
  if (target.protocol === 'redis') {
    return await runRedisBenchmark({
      port: target.port,
      connections: streams,
      streams,
      payloadBytes: PAYLOAD_BYTES,
      durationMs,
      cpus: context.load.cpus,
    });
  }
  return await runWrk({
    port: target.port,
    token: target.token,
    connections: streams,
    mode: 'append',
    args: [pathsFile, String(PAYLOAD_BYTES)],
    durationMs,
    load: context.load,
  });
}

function checksOf(streams: number, rounds: Rounds, fsyncs: readonly FsyncFigures[]): Check[] {
  const rate = (result: LoadResult): number => result.ratePerSecond;
  const ours = rounds.get('millrace');
  const theirs = rounds.get('bare');
  const latency: Check[] = [];
  if (ours !== undefined && theirs !== undefined) {
    // The strict reading of "within 2 times the bare handler's plus one fsync": the fsync is not doubled.
    const fsyncMs = median(fsyncs.map(({ p99Ms }) => p99Ms));
    const shares = ours.map((result, round) => result.p99Ms / (2 * (theirs[round] as LoadResult).p99Ms + fsyncMs));
    latency.push(check('p99 / (2 x bare p99 + fsync p99)', median(shares), '', { atMost: 1 }));
  }
  return [
    ...compare(rounds, 'millrace', 'reference-file', rate, (ratio) =>
      check(`rate of ${streams} streams / reference-file`, ratio, 'x', { atLeast: 20 }),
    ),
    ...compare(rounds, 'millrace', 'bare', rate, (ratio) =>
      check(`rate of ${streams} streams / bare`, ratio, 'x', { atLeast: 0.5 }),
    ),
    ...compare(rounds, 'millrace', 'redis', rate, (ratio) =>
      check(`rate of ${streams} streams / redis`, ratio, 'x', { atLeast: 1 }),
    ),
    ...TOKEN_TARGETS.flatMap(({ name }) =>
      compare(rounds, name, 'millrace', rate, (ratio) =>
        check(`rate of ${name} / without a token`, ratio, 'x', { atLeast: TOKEN_GOAL }),
      ),
    ),
    ...latency,
  ];
}

async function run(context: Context, name: string, wantedStreams: number): Promise<ScenarioReport[]> {
  const streams = context.smoke ? 4 : wantedStreams;
  const missing = wrkMissing() ?? redisBenchmarkMissing();
  if (wrkMissing() !== undefined) {
    context.notRun(`${name}: ${wrkMissing()}`);
    return [];
  }
  const ours = [millrace, millraceBefore, ...TOKEN_TARGETS, millraceLimits];
  const targets = selectTargets(context, name, [...ours, referenceFile, bare, redis]);
  const wanted = missing === undefined ? targets : targets.filter((target) => target.name !== 'redis');
  if (wanted.length < targets.length) context.notRun(`${name}: redis: ${missing}`);
  const paths = Array.from({ length: streams }, (_, index) => streamPath(`append-${index}`));
  const pathsFile = writePaths(context.start.dir, name, paths);
  return await withTargets(context, wanted, async (running) => {
    for (const target of running) {
      if (target.protocol === 'http') await createStreams(target.port, paths, target.token);
      await measureAppends(context, target, streams, pathsFile, context.warmUpMs);
    }
    const fsyncs: FsyncFigures[] = [];
    const rounds = await alternate(context, running, async (target) => {
      if (target === running[0]) fsyncs.push(measureFsync(context.start.dir, context.smoke ? 20 : FSYNC_PROBE_MS));
      return await withCpu(target, () => measureAppends(context, target, streams, pathsFile, context.durationMs));
    });
    const [p50, p99] = [median(fsyncs.map((f) => f.p50Ms)), median(fsyncs.map((f) => f.p99Ms))];
    return [
      {
        scenario: name,
        title: `${streams} streams, ${streams} connections, one append of ${PAYLOAD_BYTES} B in flight on each`,
        rateUnit: 'appends/s',
        rows: rowsOf(rounds),
        checks: checksOf(streams, rounds, fsyncs),
        pairs: pairsOf(rounds),
        notes: [
          `fdatasync of 4 KiB in this run: p50 ${formatMs(p50)} ms, p99 ${formatMs(p99)} ms`,
          'wrk corrects its latencies for the waiting it caused itself, redis-benchmark does not',
        ],
      },
    ];
  });
}

export const appends100: Scenario = {
  name: 'appends-100',
  summary: 'append rate and latency, 100 streams',
  run: (context) => run(context, 'appends-100', 100),
};

export const appends500: Scenario = {
  name: 'appends-500',
  summary: 'append rate and latency, 500 streams',
  run: (context) => run(context, 'appends-500', 500),
};
