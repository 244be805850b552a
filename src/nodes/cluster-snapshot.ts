/** All nodes of a cluster asked in the same moment, and what follows from their answers. Pure. */
import type { GroupReport, NodeReport } from './report.ts';

/** A node's answer, or in `error` why there is none. */
export interface NodeSnapshot {
  readonly nodeId: number;
  readonly report: NodeReport | undefined;
  readonly error: string;
  /** Something answers, but the token or the cluster file is wrong. */
  readonly isMistake?: boolean;
}

/** One answer for each node of the cluster file, in its order. */
export type ClusterSnapshot = readonly NodeSnapshot[];

export interface GroupView extends Pick<GroupReport, 'id' | 'term' | 'voters' | 'outgoing' | 'learners' | 'isPending'> {
  /** The leader in the newest term that any node knows. */
  readonly leader: number | undefined;
  readonly committed: number;
  /** The node whose report this is. Unless it leads, it may not have heard of the last change of members. */
  readonly from: number;
}

export function reportOf(snapshot: ClusterSnapshot, nodeId: number): NodeReport | undefined {
  return snapshot.find((answer) => answer.nodeId === nodeId)?.report;
}

/** Thousands of groups are looked up for each node, each time that a page is drawn. */
const indexes = new WeakMap<NodeReport, ReadonlyMap<number, GroupReport>>();

export function groupOf(report: NodeReport | undefined, group: number): GroupReport | undefined {
  if (report === undefined) return undefined;
  let index = indexes.get(report);
  if (index === undefined) {
    index = new Map(report.groups.map((one) => [one.id, one]));
    indexes.set(report, index);
  }
  return index.get(group);
}

/** A group, as the nodes before have told of it. */
interface Told {
  /** The report of the node that knows its members best, and which node that is. */
  group: GroupReport;
  from: number;
  leader: number | undefined;
  committed: number;
}

/** Every group that any node reports, as the node sees it that knows its members best. Ascending. */
export function groupViews(snapshot: ClusterSnapshot): GroupView[] {
  const told = new Map<number, Told>();
  for (const { nodeId: from, report } of snapshot) {
    for (const group of report?.groups ?? []) {
      const known = told.get(group.id);
      if (known === undefined) told.set(group.id, { from, group, leader: group.leader, committed: group.committed });
      else addReport(known, from, group);
    }
  }
  return Array.from(told.values(), viewOf).sort((a, b) => a.id - b.id);
}

/** The leader is that of the newest term, as the first node says that knows one. */
function addReport(told: Told, from: number, group: GroupReport): void {
  if (group.term > told.group.term) told.leader = group.leader;
  else if (group.term === told.group.term) told.leader ??= group.leader;
  told.committed = Math.max(told.committed, group.committed);
  if (!knowsMore(from, group, told)) return;
  told.from = from;
  told.group = group;
}

function viewOf({ group, from, leader, committed }: Told): GroupView {
  const { id, term, voters, outgoing, learners, isPending } = group;
  return { id, leader, term, voters, outgoing, learners, isPending, committed, from };
}

/** A node hears of term and leader at once, and of members only by its log, which may end early or be lost. */
function knowsMore(from: number, group: GroupReport, best: Told): boolean {
  const byTerm = group.term - best.group.term;
  const byLead = Number(group.leader === from) - Number(best.group.leader === best.from);
  const byLoss = Number(best.group.logLost) - Number(group.logLost);
  return (byTerm || byLead || byLoss || group.lastLog - best.group.lastLog) > 0;
}

/** Groups that others have and the node is no part of: taken out while it was away, it never hears of it. */
export function foreignTo(snapshot: ClusterSnapshot, nodeId: number): number[] {
  const foreign = groupViews(snapshot).filter(
    ({ voters, learners, isPending }) =>
      voters.length > 0 && !isPending && !voters.includes(nodeId) && !learners.includes(nodeId),
  );
  return foreign.map(({ id }) => id);
}

/** How many groups each node leads. */
export function leaderships(snapshot: ClusterSnapshot): Map<number, number> {
  const counts = new Map<number, number>();
  for (const { leader } of groupViews(snapshot)) {
    if (leader !== undefined) counts.set(leader, (counts.get(leader) ?? 0) + 1);
  }
  return counts;
}

/** Groups that any node still sees led by this one. */
export function ledBy(snapshot: ClusterSnapshot, nodeId: number): number[] {
  const led = new Set<number>();
  for (const { report } of snapshot) {
    for (const { id, leader } of report?.groups ?? []) if (leader === nodeId) led.add(id);
  }
  return [...led].sort((a, b) => a - b);
}

/** Entries that others have committed and the node has not applied, in its worst group. */
export function lagOf(snapshot: ClusterSnapshot, nodeId: number): number {
  const own = reportOf(snapshot, nodeId);
  return Math.max(0, ...groupViews(snapshot).map((view) => gapOf(snapshot, nodeId, own, view.id)));
}

/** The same for one group. A node without the group is behind by all of it; without another's word there is no gap. */
export function gapOf(snapshot: ClusterSnapshot, nodeId: number, own: NodeReport | undefined, group: number): number {
  let highest = 0;
  for (const { nodeId: other, report } of snapshot) {
    if (other !== nodeId) highest = Math.max(highest, groupOf(report, group)?.committed ?? 0);
  }
  return Math.max(0, highest - (groupOf(own, group)?.applied ?? 0));
}

/** "group 3", "groups 1, 2 and 3", "groups 0, 1, 2 and 13 more": in order, however they were found. */
export function nameGroups(unordered: readonly number[]): string {
  const SHOWN = 6;
  const ids = unordered.toSorted((a, b) => a - b);
  if (ids.length === 1) return `group ${ids[0]}`;
  if (ids.length > SHOWN) return `groups ${ids.slice(0, SHOWN - 1).join(', ')} and ${ids.length - SHOWN + 1} more`;
  return `groups ${listOf(ids)}`;
}

/** "1", "1 and 2", "1, 2 and 3". */
export function listOf(ids: readonly number[]): string {
  return ids.length < 2 ? ids.join('') : `${ids.slice(0, -1).join(', ')} and ${ids.at(-1)}`;
}
