/** Asking again until something is true. There is no event across processes for "the cluster is ready". */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from './cluster.ts';
import { Failure, Interrupted } from './failure.ts';
import type { Progress } from './progress.ts';
import { whyClusterNotReady } from './ready.ts';
import type { Sample } from './sample.ts';

export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (error) {
    throw signal.aborted ? new Interrupted() : error;
  }
}

export interface Pace {
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/** One good look may be luck: a leader may be gone without anyone knowing yet. */
const LOOKS_IN_A_ROW = 2;

/**
 * Waits until `why` has nothing to object to in `looks` samples in a row. Past the timeout it throws a Failure with the last
 * objection; `problem` completes it to a sentence. `why` is given the sample before as well; `show` is told of each objection.
 */
export async function settle(
  cluster: Cluster,
  pace: Pace,
  looks: number,
  why: (sample: Sample, before: Sample | undefined) => string | undefined,
  problem: string,
  show: (objection: string, sample: Sample) => void,
): Promise<Sample> {
  const deadlineMs = performance.now() + pace.timeoutMs;
  let good = 0;
  let before: Sample | undefined;
  for (;;) {
    const sample = await cluster.sample();
    failIfMistaken(sample);
    const objection = why(sample, before);
    before = sample;
    if (objection === undefined && ++good >= looks) return sample;
    if (objection !== undefined) {
      good = 0;
      show(objection, sample);
    }
    if (performance.now() >= deadlineMs) {
      throw new Failure(`${problem} within ${pace.timeoutMs / 1000} s: ${objection ?? 'it was only for a moment'}`);
    }
    await pause(pace.intervalMs, cluster.signal);
  }
}

/** A wrong token, or a node under another's address, is not waited for. */
export function failIfMistaken(sample: Sample): void {
  const mistaken = sample.find(({ isMistake }) => isMistake === true);
  if (mistaken !== undefined) throw new Failure(`node ${mistaken.nodeId}: ${mistaken.error}`);
}

/** Every node of the cluster file is ready, twice in a row. */
export function clusterReady(cluster: Cluster, pace: Pace, lagMax: number, progress: Progress): Promise<Sample> {
  const why = (sample: Sample, before: Sample | undefined): string | undefined =>
    whyClusterNotReady(sample, lagMax, before);
  const show = (objection: string): void => progress.waiting(objection);
  return settle(cluster, pace, LOOKS_IN_A_ROW, why, 'the cluster is not ready', show);
}
