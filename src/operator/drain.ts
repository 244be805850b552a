/**
 * Drain: look whether the cluster can spare the node, mark it, hand its
 * leaderships to others, look again. Every step may be repeated, so a drain that was killed is finished by another one.
 * Beside the explicit transfers the node's own balancer gives away one leadership a second, which only helps.
 */
import type { Cluster } from '../nodes/cluster.ts';
import type { ClusterNode } from '../nodes/cluster-file.ts';
import { EXIT_ABORTED, Failure, Interrupted } from '../nodes/failure.ts';
import { Mistake } from '../nodes/http-client.ts';
import type { ProgressBar } from './progress-bar.ts';
import { type ClusterSnapshot, ledBy, nameGroups } from '../nodes/cluster-snapshot.ts';
import { isMarked } from '../nodes/report.ts';
import { planDrain } from './successors.ts';
import { clusterReady, pause } from './waiting.ts';

export interface DrainOptions {
  readonly intervalMs: number;
  readonly drainTimeoutMs: number;
  readonly readyTimeoutMs: number;
  readonly lagMax: number;
  /** Whether another node may be marked as well. */
  readonly force: boolean;
}

/**
 * Leaderships that are on their way at once: each costs its group's writers a moment, and a cluster with many
 * groups would give all of its writers that moment together.
 */
const TRANSFERS_AT_ONCE = 4;
/** The mark is lifted in so many attempts when something went wrong. */
const LIFT_ATTEMPTS = 3;
const LIFT_PAUSE_MS = 1000;
/** A hand-over takes some ten milliseconds; the next few follow soon. */
const TRANSFER_LOOK_MS = 250;
/** A node that does not answer so often in a row is gone. */
const LOOKS_MAX = 3;

/** Throws an ordinary Failure, nothing having been done, unless all nodes are ready. */
export async function preflight(
  cluster: Cluster,
  node: ClusterNode,
  { intervalMs, readyTimeoutMs, lagMax, force }: DrainOptions,
  progress: ProgressBar,
): Promise<void> {
  try {
    const snapshot = await clusterReady(cluster, { intervalMs, timeoutMs: readyTimeoutMs }, lagMax, progress);
    const other = force ? undefined : otherMarked(snapshot, node.id);
    if (other !== undefined) {
      throw new Failure(
        `node ${other} is marked for maintenance already, and with node ${node.id} down too a group may lose its majority: undrain --node ${other} first, or give --force`,
      );
    }
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error instanceof Interrupted) throw new Failure('interrupted, nothing was changed', error.exitCode);
    const { report } = await cluster.answerOf(node);
    const rest = isMarked(report) ? `; node ${node.id} still has the mark of an earlier run, undrain lifts it` : '';
    throw new Failure(`${error.message}; nothing was changed${rest}`, error.exitCode, { cause: error });
  }
}

/** Runs `work` with the node marked. Whatever goes wrong, the mark is lifted, or the message says that it is not. */
export async function underMark<T>(
  cluster: Cluster,
  node: ClusterNode,
  progress: ProgressBar,
  work: () => Promise<T>,
): Promise<T> {
  let wasMarked = false;
  try {
    await cluster.mark(node, 'draining');
    wasMarked = true;
    return await work();
  } catch (error) {
    progress.end();
    if (!wasMarked && error instanceof Mistake)
      throw new Failure(`node ${node.id}: ${withoutName(error.message, node)}; nothing was changed`);
    const kept = await lift(cluster, node);
    if (!(error instanceof Failure)) throw error;
    const after =
      kept === undefined
        ? 'its drain mark was lifted'
        : `its drain mark may still be set, because ${kept}: run undrain --node ${node.id} when it answers`;
    const isReadiness = error instanceof NotReadyAfterwards;
    const text = isReadiness ? `${error.message}; ${after}` : `ABORTED (${withoutName(error.message, node)}); ${after}`;
    throw new Failure(`node ${node.id}: ${text}`, isReadiness ? error.exitCode : EXIT_ABORTED, { cause: error });
  }
}

/** The line begins with the node already. */
export function withoutName(message: string, node: ClusterNode): string {
  const name = `node ${node.id}: `;
  return message.startsWith(name) ? message.slice(name.length) : message;
}

/** Undefined, or why the mark could not be lifted. */
async function lift(cluster: Cluster, node: ClusterNode): Promise<string | undefined> {
  let kept: string | undefined;
  for (let attempt = 1; attempt <= LIFT_ATTEMPTS; attempt++) {
    kept = await cluster.liftMark(node);
    if (kept === undefined) return undefined;
    // Not cluster.signal: an interruption is a reason to clean up.
    if (attempt < LIFT_ATTEMPTS) await pause(LIFT_PAUSE_MS, new AbortController().signal);
  }
  return kept;
}

/** A cluster that is not ready is a failure, not an abort, also at the end of a drain. */
class NotReadyAfterwards extends Failure {}

/** Inside `underMark`. Resolves when no node sees this one lead anything; the result is how many leaderships it had. */
export async function giveAway(
  cluster: Cluster,
  node: ClusterNode,
  options: DrainOptions,
  progress: ProgressBar,
): Promise<number> {
  // From the first look on: however slow that was, every leadership is offered once.
  let deadlineMs: number | undefined;
  let atFirst = 0;
  let refused = '';
  for (;;) {
    const snapshot = await patientSnapshot(cluster, options.intervalMs);
    const led = ledBy(snapshot, node.id);
    atFirst = Math.max(atFirst, led.length);
    if (led.length === 0) break;
    progress.step(atFirst - led.length, atFirst, `leaderships of node ${node.id} handed over`);
    const { transfers, immovable } = planDrain(snapshot, node.id);
    if (transfers.length === 0 && immovable.length > 0) {
      const groups = nameGroups(immovable.map(({ group }) => group));
      throw new Failure(`no node can take ${groups}: ${immovable[0]?.why ?? ''}`);
    }
    deadlineMs ??= performance.now() + options.drainTimeoutMs;
    if (performance.now() >= deadlineMs) {
      const because = refused === '' ? '' : `; the last refusal was: ${refused}`;
      throw new Failure(`${nameGroups(led)} did not move within ${options.drainTimeoutMs / 1000} s${because}`);
    }
    for (const { group, to } of transfers.slice(0, TRANSFERS_AT_ONCE)) {
      // The balancer may have been faster, and a receiver may be behind for a moment: the next round looks again.
      const reason = await cluster.transfer(node, group, to);
      if (reason !== undefined) refused = `group ${group} to node ${to}: ${reason}`;
    }
    await pause(Math.min(options.intervalMs, TRANSFER_LOOK_MS), cluster.signal);
  }
  await checkAfterwards(cluster, options, progress);
  return atFirst;
}

async function checkAfterwards(cluster: Cluster, options: DrainOptions, progress: ProgressBar): Promise<void> {
  const { intervalMs, readyTimeoutMs, lagMax } = options;
  try {
    await clusterReady(cluster, { intervalMs, timeoutMs: readyTimeoutMs }, lagMax, progress);
  } catch (error) {
    if (!(error instanceof Failure) || error instanceof Interrupted) throw error;
    throw new NotReadyAfterwards(`it leads nothing any more, but ${error.message}`);
  }
}

/**
 * Inside `underMark`, before a node is taken down: mark first, then look. Of two rollouts at once at least one sees
 * the other's mark and gives up, so never two nodes are down by them.
 */
export async function checkAlone(cluster: Cluster, node: ClusterNode, intervalMs: number): Promise<void> {
  const other = otherMarked(await patientSnapshot(cluster, intervalMs), node.id);
  if (other === undefined) return;
  throw new Failure(
    `node ${other} is marked for maintenance too, by another run or one that was killed: wait for it, or undrain --node ${other}`,
  );
}

/** Another node that has the drain mark; undefined when there is none. */
export function otherMarked(snapshot: ClusterSnapshot, nodeId: number): number | undefined {
  return snapshot.find((answer) => answer.nodeId !== nodeId && isMarked(answer.report))?.nodeId;
}

/** One answer that is late or busy is no reason to give a drain up; a node that is gone is. */
async function patientSnapshot(cluster: Cluster, intervalMs: number): Promise<ClusterSnapshot> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await completeSnapshot(cluster);
    } catch (error) {
      if (error instanceof Interrupted || !(error instanceof Failure) || attempt === LOOKS_MAX) throw error;
      await pause(intervalMs, cluster.signal);
    }
  }
}

/** All nodes answered, or a Failure that says who did not. */
export async function completeSnapshot(cluster: Cluster): Promise<ClusterSnapshot> {
  const snapshot = await cluster.snapshot();
  const silent = snapshot.find(({ report }) => report === undefined);
  if (silent !== undefined) throw new Failure(`node ${silent.nodeId}: ${silent.error}`);
  return snapshot;
}

/** One line for each step that a drain would take now. */
export function describePlan(snapshot: ClusterSnapshot, node: ClusterNode): string[] {
  const { transfers, immovable } = planDrain(snapshot, node.id);
  if (transfers.length + immovable.length === 0) return [`node ${node.id}: leads no groups, nothing to transfer`];
  return [
    ...transfers.map(({ group, to }) => `group ${group}: transfer to node ${to}`),
    ...immovable.map(({ group, why }) => `group ${group}: cannot be transferred, ${why}`),
  ];
}
