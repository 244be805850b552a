/** Asking again until something is true. There is no event across processes for "the cluster is ready". */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from '../nodes/cluster.ts';
import { Failure, Interrupted } from '../nodes/failure.ts';
import type { ProgressBar } from './progress-bar.ts';
import { whyClusterNotReady } from './ready.ts';
import type { ClusterSnapshot } from '../nodes/cluster-snapshot.ts';

export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (error) {
    throw signal.aborted ? new Interrupted() : error;
  }
}

export interface PollPace {
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/** One good look may be luck: a leader may be gone without anyone knowing yet. */
const LOOKS_IN_A_ROW = 2;

export interface Settling {
  /** Snapshots in a row that must be good. */
  readonly looks: number;
  /** Returns the objection, if there is one; also sees the snapshot before. */
  readonly why: (snapshot: ClusterSnapshot, before: ClusterSnapshot | undefined) => string | undefined;
  /** Completed to a sentence by the last objection. */
  readonly problem: string;
  /** Shows each objection. */
  readonly show: (objection: string, snapshot: ClusterSnapshot) => void;
}

/** Waits until there is nothing to object to. Throws a Failure past the timeout. */
export async function settle(
  cluster: Cluster,
  pace: PollPace,
  { looks, why, problem, show }: Settling,
): Promise<ClusterSnapshot> {
  const deadlineMs = performance.now() + pace.timeoutMs;
  let good = 0;
  let before: ClusterSnapshot | undefined;
  for (;;) {
    const snapshot = await cluster.snapshot();
    failIfMistaken(snapshot);
    const objection = why(snapshot, before);
    before = snapshot;
    if (objection === undefined && ++good >= looks) return snapshot;
    if (objection !== undefined) {
      good = 0;
      show(objection, snapshot);
    }
    if (performance.now() >= deadlineMs) {
      throw new Failure(`${problem} within ${pace.timeoutMs / 1000} s: ${objection ?? 'it was only for a moment'}`);
    }
    await pause(pace.intervalMs, cluster.signal);
  }
}

/** A wrong token, or a node under another's address, is not waited for. */
export function failIfMistaken(snapshot: ClusterSnapshot): void {
  const mistaken = snapshot.find(({ isMistake }) => isMistake === true);
  if (mistaken !== undefined) throw new Failure(`node ${mistaken.nodeId}: ${mistaken.error}`);
}

/** Every node of the cluster file is ready, twice in a row. */
export function clusterReady(
  cluster: Cluster,
  pace: PollPace,
  lagMax: number,
  progress: ProgressBar,
): Promise<ClusterSnapshot> {
  return settle(cluster, pace, {
    looks: LOOKS_IN_A_ROW,
    why: (snapshot, before) => whyClusterNotReady(snapshot, lagMax, before),
    problem: 'the cluster is not ready',
    show: (objection) => progress.waiting(objection),
  });
}
