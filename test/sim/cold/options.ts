/** What a seed decides about the cold store of its run. Drawn apart from everything else, so that it moves nothing there. */
import type { ColdSettings } from '../../../src/shard/cold/port.ts';
import { type Random, createRandom } from '../../support/random.ts';

export interface ColdOptions {
  readonly settings: Omit<ColdSettings, 'run'>;
  /** 0: only what consensus bounds. */
  readonly uncommittedBytesMax: number;
  readonly delayMs: number;
  /** Of calls that do not simply succeed. */
  readonly trouble: number;
  /** Mean time between two outages of the store. */
  readonly outageMs: number;
  /** Of ranges that come altered or truncated. */
  readonly altered: number;
  /** All streams are deleted at the end, one by one or as a bucket, and the store must become empty. */
  readonly end: 'keep' | 'delete' | 'purge';
}

/** Sweeps and collections that do not happen in the time of a run. */
const NEVER_MS = 1e9;

/** Undefined: a run without a cold store. */
export function drawCold(seed: number): ColdOptions | undefined {
  const random = createRandom(seed ^ 0x5c01_d57e);
  if (random.chance(0.35)) return undefined;
  return {
    settings: {
      flushIntervalMs: random.pick([30, 200, 1000, 3000]),
      flushBytes: random.pick([1, 500, 4000, 100_000]),
      flushBytesMax: random.pick([60, 300, 2000, 50_000]),
      uploadsMax: random.pick([1, 2, 8]),
      hotBytesMax: random.pick([0, 0, 1500, 6000, 40_000]),
      gcIntervalMs: random.pick([50, 300, 1000]),
      gcEntriesMax: random.pick([1, 3, 1000]),
      gcGraceMs: random.pick([0, 0, 300, 2000]),
      sweepIntervalMs: drawSweep(random),
      // Late writes of uploads that failed are no orphans yet when it is long, and orphans at once when it is not.
      sweepGraceMs: random.pick([0, 0, 300, 3000]),
    },
    uncommittedBytesMax: random.pick([0, 0, 0, 3000]),
    delayMs: random.pick([0.5, 5, 50]),
    trouble: random.pick([0, 0.05, 0.3]),
    outageMs: random.pick([NEVER_MS, 8000, 4000]),
    altered: random.pick([0, 0, 0, 0.1]),
    end: random.pick(['keep', 'delete', 'delete', 'purge']),
  };
}

/** Mostly so often that it meets uploads under way. */
function drawSweep(random: Random): number {
  return random.pick([100, 300, 1000, 4000]);
}
