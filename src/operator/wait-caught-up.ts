/** Waiting for one node to be a caught-up voter everywhere, as long as it gets anywhere. */
import type { Cluster } from '../nodes/cluster.ts';
import type { ClusterNode } from '../nodes/cluster-file.ts';
import { Failure } from '../nodes/failure.ts';
import type { ProgressBar } from './progress-bar.ts';
import { type Advance, advanceOf, hasNothing, whyNotReady } from './ready.ts';
import type { NodeReport } from '../nodes/report.ts';
import { type ClusterSnapshot, groupViews, lagOf, reportOf } from '../nodes/cluster-snapshot.ts';
import { failIfMistaken, pause } from './waiting.ts';

export interface CaughtUpOptions {
  readonly intervalMs: number;
  readonly stallTimeoutMs: number;
  readonly readyTimeoutMs: number;
  readonly lagMax: number;
  /** Only a process that started after this moment counts (performance.now). */
  readonly sinceMs?: number;
}

/** Throws a Failure with the reason when nothing moves for the stall timeout, or after the ready timeout. */
export async function waitCaughtUp(
  cluster: Cluster,
  node: ClusterNode,
  options: CaughtUpOptions,
  progress: ProgressBar,
): Promise<void> {
  const { sinceMs } = options;
  const deadlineMs = performance.now() + options.readyTimeoutMs;
  let movedAtMs = performance.now();
  let advancedTo: Advance | undefined;
  let before: ClusterSnapshot | undefined;
  for (;;) {
    const snapshot = await cluster.snapshot();
    failIfMistaken(snapshot);
    const report = reportOf(snapshot, node.id);
    const clockMs = performance.now();
    const isOld = sinceMs !== undefined && isOlderThan(report, clockMs - sinceMs);
    const why = isOld
      ? `node ${node.id} still runs the process from before the restart command`
      : whyNotReady(snapshot, node.id, options.lagMax, before);
    if (why === undefined) return;
    before = snapshot;
    const advance = report === undefined || isOld ? undefined : advanceOf(report, node.id);
    if (advance !== undefined && hasGrown(advancedTo, advance)) movedAtMs = clockMs;
    advancedTo = advance ?? advancedTo;
    if (advance === undefined) progress.waiting(why);
    else
      progress.step(
        advance.voterIn,
        groupViews(snapshot).length,
        `node ${node.id} is ${lagOf(snapshot, node.id)} entries behind`,
      );
    const hint = hasNothing(snapshot, node.id)
      ? '; it has applied nothing at all: if it lost its disk, run allow-rejoin, else look into its log'
      : '';
    if (clockMs - movedAtMs >= options.stallTimeoutMs)
      throw new Failure(`no progress for ${options.stallTimeoutMs / 1000} s: ${why}${hint}`);
    if (clockMs >= deadlineMs) throw new Failure(`not within ${options.readyTimeoutMs / 1000} s: ${why}${hint}`);
    await pause(options.intervalMs, cluster.signal);
  }
}

function hasGrown(before: Advance | undefined, now: Advance): boolean {
  return before === undefined || now.voterIn > before.voterIn || now.applied > before.applied;
}

/** A node of another version may not tell its age; then it is believed. */
function isOlderThan(report: NodeReport | undefined, ageMs: number): boolean {
  return report?.uptimeMs !== undefined && report.uptimeMs > ageMs;
}
