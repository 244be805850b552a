/** Which nodes take over the groups that a node gives away. Pure. */
import {
  type GroupView,
  type ClusterSnapshot,
  groupOf,
  groupViews,
  leaderships,
  reportOf,
} from '../nodes/cluster-snapshot.ts';

export interface PlannedTransfer {
  readonly group: number;
  readonly to: number;
}

export interface TransferPlan {
  readonly transfers: readonly PlannedTransfer[];
  /** Groups that no other node can take, each with the reason. */
  readonly immovable: readonly { readonly group: number; readonly why: string }[];
}

/**
 * For every group that the node says it leads, another voter that takes leaderships: the one with
 * the fewest of them in the whole cluster (as the plan grows), then the one that has applied most,
 * then the lowest id. Voters that do not report come last.
 */
export function planDrain(snapshot: ClusterSnapshot, nodeId: number): TransferPlan {
  const led = reportOf(snapshot, nodeId)?.groups.filter(({ leader }) => leader === nodeId) ?? [];
  const counts = leaderships(snapshot);
  const views = new Map(groupViews(snapshot).map((view) => [view.id, view]));
  const transfers: PlannedTransfer[] = [];
  const immovable: { group: number; why: string }[] = [];
  for (const { id, voters } of led) {
    const others = voters.filter((voter) => voter !== nodeId);
    const able = others.filter((voter) => reportOf(snapshot, voter)?.acceptsTransfers !== false);
    const to = bestOf(snapshot, views.get(id), able, counts);
    if (to === undefined) {
      immovable.push({ group: id, why: whyNobody(snapshot, others) });
      continue;
    }
    counts.set(to, (counts.get(to) ?? 0) + 1);
    counts.set(nodeId, (counts.get(nodeId) ?? 0) - 1);
    transfers.push({ group: id, to });
  }
  return { transfers, immovable };
}

function bestOf(
  snapshot: ClusterSnapshot,
  view: GroupView | undefined,
  able: readonly number[],
  counts: ReadonlyMap<number, number>,
): number | undefined {
  const applied = (node: number): number =>
    view === undefined ? -1 : (groupOf(reportOf(snapshot, node), view.id)?.applied ?? -1);
  return able.toSorted(
    (a, b) =>
      // A voter that does not even report cannot take over.
      Number(reportOf(snapshot, a) === undefined) - Number(reportOf(snapshot, b) === undefined) ||
      (counts.get(a) ?? 0) - (counts.get(b) ?? 0) ||
      applied(b) - applied(a) ||
      a - b,
  )[0];
}

function whyNobody(snapshot: ClusterSnapshot, others: readonly number[]): string {
  if (others.length === 0) return 'it has no other voter';
  const states = others.map((node) => `node ${node} is ${reportOf(snapshot, node)?.shedState ?? 'unreachable'}`);
  return `no other voter takes leaderships (${states.join(', ')})`;
}
