/**
 * A seed's decisions about the cold store of its run. Drawn apart from everything else, so that it moves nothing
 * there.
 */
import type { ColdSettings } from '../../../src/cold/ports.ts';
import { createRandom } from '../../support/random.ts';

export interface ColdOptions {
  readonly settings: Omit<ColdSettings, 'run'>;
  /** 0: only what consensus bounds. */
  readonly uncommittedBytesMax: number;
  readonly delayMs: number;
  /** Chance that a call does not simply succeed. */
  readonly trouble: number;
  /** Chance that a call in trouble is done at once, and answered long after. */
  readonly belated: number;
  /** How long after, at most. */
  readonly lateMs: number;
  /** Mean time between two outages of the store. */
  readonly outageMs: number;
  /** Chance of a range that comes altered or truncated. */
  readonly altered: number;
  /** Share of the clients' actions on streams that come and go, beyond the usual. */
  readonly churning: number;
  /** Clients publish snapshots and raise floors. */
  readonly trims: boolean;
  /** Short-lived streams have their own bucket, which is purged occasionally. */
  readonly purges: boolean;
  /** All streams are deleted at the end, one by one or as a bucket, and the store must become empty. */
  readonly end: 'keep' | 'delete' | 'purge';
}

/** Sweeps and collections that do not happen in the time of a run. */
const NEVER_MS = 1e9;

/** Undefined: a run without a cold store. */
export function drawCold(seed: number): ColdOptions | undefined {
  const random = createRandom(seed ^ 0x5c01_d57e);
  if (random.chance(0.35)) return undefined;
  const options: ColdOptions = {
    settings: {
      flushIntervalMs: random.pick([30, 200, 1000, 3000]),
      flushBytes: random.pick([1, 500, 4000, 100_000]),
      flushBytesMax: random.pick([200, 1000, 5000, 50_000]),
      uploadsMax: random.pick([1, 2, 8]),
      hotBytesMax: random.pick([0, 0, 1500, 6000, 40_000]),
      gcIntervalMs: random.pick([50, 300, 1000]),
      gcEntriesMax: random.pick([1, 3, 1000]),
      gcGraceMs: random.pick([0, 0, 300, 2000]),
      mergedGraceMs: 0,
      sweepIntervalMs: random.pick([100, 300, 1000, 4000]),
      // Late writes of uploads that failed are no orphans yet when it is long, and orphans at once when it is not.
      sweepGraceMs: random.pick([0, 0, 300, 3000]),
      compactRunMin: 0,
    },
    uncommittedBytesMax: random.pick([0, 0, 0, 3000]),
    delayMs: random.pick([0.5, 5, 50]),
    trouble: random.pick([0, 0.05, 0.3]),
    belated: 0.2,
    lateMs: 6000,
    outageMs: random.pick([NEVER_MS, 8000, 4000]),
    altered: random.pick([0, 0, 0, 0.1]),
    churning: 0,
    trims: random.chance(0.6),
    purges: random.chance(0.5),
    end: random.pick(['keep', 'delete', 'delete', 'purge']),
  };
  // Drawn last: what is drawn above stays as it was.
  return {
    ...options,
    settings: {
      ...options.settings,
      compactRunMin: random.pick([0, 2, 2, 4, 16]),
      mergedGraceMs: random.pick([0, 0, 300, 3000]),
    },
  };
}

/**
 * Uploads are answered seconds after they happened, and meanwhile unreferenced objects are collected immediately: for
 * faults that need a leader to return to its upload.
 */
export const COLD_STORM: ColdOptions = {
  settings: {
    flushIntervalMs: 30,
    flushBytes: 1,
    flushBytesMax: 2000,
    uploadsMax: 8,
    hotBytesMax: 0,
    gcIntervalMs: 30,
    gcEntriesMax: 1000,
    gcGraceMs: 0,
    mergedGraceMs: 0,
    sweepIntervalMs: 60,
    sweepGraceMs: 0,
    compactRunMin: 2,
  },
  uncommittedBytesMax: 0,
  delayMs: 1,
  trouble: 0.5,
  belated: 1,
  lateMs: 800,
  outageMs: NEVER_MS,
  altered: 0,
  churning: 0.5,
  trims: true,
  purges: false,
  end: 'delete',
};
