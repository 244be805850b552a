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

interface Told {
  readonly from: number;
  readonly group: GroupReport;
}

/** Every group that any node reports, as the node sees it that knows its members best. Ascending. */
export function groupViews(snapshot: ClusterSnapshot): GroupView[] {
  const told = new Map<number, [Told, ...Told[]]>();
  for (const { nodeId: from, report } of snapshot) {
    for (const group of report?.groups ?? []) {
      const known = told.get(group.id);
      if (known === undefined) told.set(group.id, [{ from, group }]);
      else known.push({ from, group });
    }
  }
  return [...told.values()].map(viewOf).sort((a, b) => a.id - b.id);
}

function viewOf(told: readonly [Told, ...Told[]]): GroupView {
  const { from, group } = told.reduce((best, one) => (knowsMore(one, best) ? one : best));
  const { id, term, voters, outgoing, learners, isPending } = group;
  const leader = told.find((one) => one.group.term === term && one.group.leader !== undefined)?.group.leader;
  const committed = Math.max(...told.map((one) => one.group.committed));
  return { id, leader, term, voters, outgoing, learners, isPending, committed, from };
}

/** A node hears of term and leader at once, and of members only by its log, which may end early or be lost. */
function knowsMore(one: Told, other: Told): boolean {
  const order = [
    one.group.term - other.group.term,
    Number(one.group.leader === one.from) - Number(other.group.leader === other.from),
    Number(other.group.logLost) - Number(one.group.logLost),
    one.group.lastLog - other.group.lastLog,
  ];
  return (order.find((difference) => difference !== 0) ?? 0) > 0;
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
