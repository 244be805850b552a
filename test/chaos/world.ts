// The parts of a chaos run share a world: the cluster, its clients' load, and the findings.
import type { TestCluster } from '../support/cluster.ts';
import type { Random } from '../support/random.ts';
import { newTally, type Tally } from '../cluster/history.ts';
import type { Load } from '../cluster/load.ts';

/** A run that fails everywhere ends, instead of filling its report. */
export const VIOLATIONS_MAX = 20;

export interface Violation {
  /** Since the begin of the run. */
  readonly atMs: number;
  /** Faults that were at work, or the last one. */
  readonly during: string;
  readonly text: string;
}

export interface Counts {
  readonly appends: Tally;
  created: number;
  closed: number;
  forked: number;
  deleted: number;
  largeBodies: number;
  acknowledgedBytes: number;
  /** Whole streams that were read back on one node and held against the history. */
  contents: number;
  /** Reads on the node that had just acknowledged an append. */
  ownReads: number;
  /** Readers that followed a stream from its first byte to its end, or that read all that there was. */
  readers: number;
}

/** A stream that stays until the end of the run. */
export interface KeptStream {
  readonly path: string;
  readonly isJson: boolean;
  readonly lengthBytes: number;
  readonly digest: string;
}

export interface World {
  readonly cluster: TestCluster;
  readonly load: Load;
  readonly random: Random;
  readonly sinceMs: number;
  readonly counts: Counts;
  readonly violations: Violation[];
  readonly kept: KeptStream[];
  /** Streams that are alive, or closed and not judged yet, each with what it waits for. */
  readonly alive: Map<string, string>;
  /** Faults at work now. */
  readonly faults: Set<string>;
  lastFault: string;
  /** No more streams and appends: what there is gets closed and checked. */
  isEnding: boolean;
}

export function newWorld(cluster: TestCluster, load: Load, random: Random): World {
  return {
    cluster,
    load,
    random,
    sinceMs: performance.now(),
    counts: {
      appends: newTally(),
      created: 0,
      closed: 0,
      forked: 0,
      deleted: 0,
      largeBodies: 0,
      acknowledgedBytes: 0,
      contents: 0,
      ownReads: 0,
      readers: 0,
    },
    violations: [],
    kept: [],
    alive: new Map(),
    faults: new Set(),
    lastFault: 'none yet',
    isEnding: false,
  };
}

export function elapsedMs(world: World): number {
  return performance.now() - world.sinceMs;
}

/** Notes what broke a promise, or the harness; the run goes on, so that its report says more than the first one. */
export function violated(world: World, error: unknown): void {
  const { faults, lastFault, violations } = world;
  const during = faults.size > 0 ? [...faults].join(' + ') : `no fault, after: ${lastFault}`;
  const text =
    error instanceof Error ? (error.name === 'AssertionError' ? error.message : String(error.stack)) : String(error);
  const violation = { atMs: elapsedMs(world), during, text };
  violations.push(violation);
  process.stdout.write(`VIOLATION at ${clock(violation.atMs)} (${during}): ${text}\n`);
  if (violations.length >= VIOLATIONS_MAX) {
    world.isEnding = true;
    world.load.stop();
  }
}

/** Minutes and seconds since the begin. */
export function clock(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
