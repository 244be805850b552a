// Order statistics of the benchmark. Samples are plain numbers; units are the caller's.

import assert from 'node:assert/strict';

/** Microseconds per operation, of all processes of the server together. */
export interface CpuUsPerOperation {
  readonly all: number;
  readonly main: number;
  readonly shard: number;
}

/** One run of a load generator. Latencies in milliseconds, from request sent to response complete. */
export interface LoadResult {
  /** Successful requests per second: failed ones do not count as work done. */
  readonly ratePerSecond: number;
  readonly bytesPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
  readonly requests: number;
  readonly failed: number;
  /** Why requests failed, for the notes under the table; empty when none did. */
  readonly failures: string;
  /** Absent where the server's processes are not watched. */
  readonly cpuUs?: CpuUsPerOperation;
  /** Microseconds of CPU that an operation cost a generator of ours. */
  readonly generatorUs?: number;
}

/** Results per target, one per round. */
export type Rounds = ReadonlyMap<string, readonly LoadResult[]>;

/** Nearest-rank percentile of ascending samples. */
export function percentile(ascending: ArrayLike<number>, percent: number): number {
  assert(percent > 0 && percent <= 100, `percent ${percent} is out of (0, 100]`);
  if (ascending.length === 0) return Number.NaN;
  const rank = Math.ceil((percent / 100) * ascending.length) - 1;
  return ascending[Math.max(0, rank)] as number;
}

/** Median; of an even count the mean of the middle two. NaN when empty. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] as number;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2;
}

/** The four figures every table shows. Sorts `samples` in place. */
export function summarize(samples: Float64Array): { p50Ms: number; p99Ms: number; p999Ms: number; maxMs: number } {
  samples.sort();
  return {
    p50Ms: percentile(samples, 50),
    p99Ms: percentile(samples, 99),
    p999Ms: percentile(samples, 99.9),
    maxMs: percentile(samples, 100),
  };
}

/** Medians per column over the rounds of one target; counts of requests and failures add up. */
export function medianOfRounds(rounds: readonly LoadResult[]): LoadResult {
  assert(rounds.length > 0, 'a target without a single round has no figures');
  const column = (pick: (round: LoadResult) => number): number => median(rounds.map(pick));
  const costs = rounds.flatMap(({ cpuUs }) => (cpuUs === undefined ? [] : [cpuUs]));
  const cost = (pick: (one: CpuUsPerOperation) => number): number => median(costs.map(pick));
  return {
    ratePerSecond: column((r) => r.ratePerSecond),
    bytesPerSecond: column((r) => r.bytesPerSecond),
    p50Ms: column((r) => r.p50Ms),
    p99Ms: column((r) => r.p99Ms),
    p999Ms: column((r) => r.p999Ms),
    maxMs: column((r) => r.maxMs),
    requests: rounds.reduce((sum, r) => sum + r.requests, 0),
    failed: rounds.reduce((sum, r) => sum + r.failed, 0),
    failures: rounds.map((r) => r.failures).find((text) => text !== '') ?? '',
    ...(costs.length === 0
      ? {}
      : { cpuUs: { all: cost((c) => c.all), main: cost((c) => c.main), shard: cost((c) => c.shard) } }),
  };
}

/**
 * Median over the rounds of the ratio within a round. Targets of one round run seconds apart, so a slow phase of the
 * machine hits both sides of the ratio; a ratio of two medians would keep the drift.
 */
export function medianRatio(
  ours: readonly LoadResult[],
  theirs: readonly LoadResult[],
  pick: (result: LoadResult) => number,
): number {
  assert(ours.length === theirs.length, `rounds differ: ${ours.length} and ${theirs.length}`);
  return median(ours.map((result, round) => pick(result) / pick(theirs[round] as LoadResult)));
}
