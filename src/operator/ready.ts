/** Is a node, or the whole cluster, as it should be? Answers are undefined for yes, or the first fault. Pure. */
import type { GroupReport, NodeReport } from '../nodes/report.ts';
import {
  type ClusterSnapshot,
  gapOf,
  groupOf,
  groupViews,
  listOf,
  nameGroups,
  reportOf,
} from '../nodes/cluster-snapshot.ts';

/**
 * The node is a voter of every group that a node reports with voters, has applied all but `lagMax` of what the others
 * have committed, knows each group's leader, and has applied at least what it acknowledged before its start.
 *
 * Nodes do not answer in the same instant, and a busy group commits hundreds of entries while they do. So a node also
 * keeps up when it has applied what the others had committed in the snapshot `before`.
 */
export function whyNotReady(
  snapshot: ClusterSnapshot,
  nodeId: number,
  lagMax: number,
  before?: ClusterSnapshot,
): string | undefined {
  const answer = snapshot.find((one) => one.nodeId === nodeId);
  const report = answer?.report;
  if (report === undefined) return `node ${nodeId}: ${answer?.error ?? 'not in the cluster file'}`;
  const groups = groupViews(snapshot).filter((view) => view.voters.length > 0 || hasVoters(snapshot, view.id));
  if (groups.length === 0) return `node ${nodeId}: no node reports a group with voters`;
  const foreign: number[] = [];
  const leaderless: number[] = [];
  const behind: number[] = [];
  let lag = 0;
  for (const { id, voters } of groups) {
    const own = groupOf(report, id);
    const gap = gapOf(snapshot, nodeId, report, id);
    if (own?.voters.includes(nodeId) !== true || !voters.includes(nodeId)) foreign.push(id);
    else if (own.leader === undefined) leaderless.push(id);
    else if (!own.caughtUp || (gap > lagMax && !keepsUp(own, nodeId, before))) behind.push(id);
    lag = Math.max(lag, gap);
  }
  if (foreign.length > 0) return `node ${nodeId} is not a voter of ${nameGroups(foreign)}`;
  if (leaderless.length > 0) return `node ${nodeId} knows no leader of ${nameGroups(leaderless)}${whoIsAway(snapshot)}`;
  if (behind.length > 0) return `node ${nodeId} is behind in ${nameGroups(behind)}, by up to ${lag} entries`;
  return undefined;
}

function keepsUp(own: GroupReport, nodeId: number, before: ClusterSnapshot | undefined): boolean {
  const others = before?.filter((answer) => answer.nodeId !== nodeId) ?? [];
  const reports = others.map(({ report }) => groupOf(report, own.id)).filter((group) => group !== undefined);
  return reports.length > 0 && reports.every(({ committed }) => own.applied >= committed);
}

function hasVoters(snapshot: ClusterSnapshot, group: number): boolean {
  return snapshot.some(({ report }) => (groupOf(report, group)?.voters.length ?? 0) > 0);
}

/** Why the others lack a leader, most likely. */
function whoIsAway(snapshot: ClusterSnapshot): string {
  const silent = snapshot.filter(({ report }) => report === undefined).map(({ nodeId }) => nodeId);
  if (silent.length === 0) return '';
  return silent.length === 1 ? ` (node ${silent[0]} does not answer)` : ` (nodes ${listOf(silent)} do not answer)`;
}

/** Nodes that do not answer are why others have no leader, so they are named first, and all of them. */
function whySilent(snapshot: ClusterSnapshot): string | undefined {
  const silent = snapshot.filter(({ report }) => report === undefined);
  const reasons = silent.map(({ nodeId, error }) => `node ${nodeId}: ${error}`);
  if (reasons.length <= 1) return reasons[0];
  const most = silent.length * 2 >= snapshot.length ? ', so groups have no majority' : '';
  return `${silent.length} of ${snapshot.length} nodes do not answer${most} (${reasons.join('; ')})`;
}

/** Every configured node is ready. */
export function whyClusterNotReady(
  snapshot: ClusterSnapshot,
  lagMax: number,
  before?: ClusterSnapshot,
): string | undefined {
  const silent = whySilent(snapshot);
  if (silent !== undefined) return silent;
  for (const { nodeId } of snapshot) {
    const why = whyNotReady(snapshot, nodeId, lagMax, before);
    if (why !== undefined) return why;
  }
  return undefined;
}

/** Every group has a leader, as far as the nodes that answer know. */
export function whyLeaderless(snapshot: ClusterSnapshot): string | undefined {
  const ids = groupViews(snapshot)
    .filter(({ leader }) => leader === undefined)
    .map(({ id }) => id);
  if (ids.length === 0) return undefined;
  return `${nameGroups(ids)} ${ids.length === 1 ? 'has' : 'have'} no leader${whoIsAway(snapshot)}`;
}

/** Every node reports exactly so many groups, each with voters and a leader. */
export function whyNotServing(snapshot: ClusterSnapshot, groups: number): string | undefined {
  const silent = whySilent(snapshot);
  if (silent !== undefined) return silent;
  for (const { nodeId, report } of snapshot) {
    if (report === undefined) continue;
    const found = report.groups.length;
    if (found !== groups)
      return `node ${nodeId} reports ${found} ${found === 1 ? 'group' : 'groups'} instead of ${groups}`;
    const empty = report.groups.filter(({ voters }) => voters.length === 0).map(({ id }) => id);
    if (empty.length > 0) return `node ${nodeId} reports no voters of ${nameGroups(empty)}`;
    const leaderless = report.groups.filter(({ leader }) => leader === undefined).map(({ id }) => id);
    if (leaderless.length > 0) return `node ${nodeId} knows no leader of ${nameGroups(leaderless)}`;
  }
  return undefined;
}

/** Grows while a node that comes back gets anywhere: groups that it votes in, and entries that it has applied. */
export interface Advance {
  readonly voterIn: number;
  readonly applied: number;
}

export function advanceOf(report: NodeReport | undefined, nodeId: number): Advance {
  const groups = report?.groups ?? [];
  return {
    voterIn: groups.filter(({ voters }) => voters.includes(nodeId)).length,
    applied: groups.reduce((sum, { applied }) => sum + applied, 0),
  };
}

/**
 * The node answers, should vote, and has not even a log: an empty disk that the leaders were not told to refill, or
 * not yet. A node that was taken out and still has its log has lost nothing.
 */
export function hasNothing(snapshot: ClusterSnapshot, nodeId: number): boolean {
  const groups = reportOf(snapshot, nodeId)?.groups;
  if (groups === undefined || groups.some(({ applied, lastLog }) => applied > 0 || lastLog > 0)) return false;
  return groupViews(snapshot).some(({ voters }) => voters.includes(nodeId));
}

/** A node that may lack what it acknowledged. */
export interface Doubt {
  readonly nodeId: number;
  readonly before: ClusterSnapshot;
  readonly snapshot: ClusterSnapshot;
  readonly lagMax: number;
}

/**
 * Does the node have to be allowed to come back with less than it acknowledged? Yes when its log is empty,
 * when it does not answer (the operator knows), or when it is behind and gets nowhere. Not for a node that
 * catches up: an unused permission would wait for a later accident.
 */
export function needsPermission(group: number, { snapshot, before, nodeId, lagMax }: Doubt): boolean {
  const report = reportOf(snapshot, nodeId);
  const own = groupOf(report, group);
  if (own === undefined) return true;
  if (own.logLost) return !own.refilled;
  if (own.lastLog === 0) return true;
  if (gapOf(snapshot, nodeId, report, group) <= lagMax) return false;
  return own.applied <= (groupOf(reportOf(before, nodeId), group)?.applied ?? -1);
}
