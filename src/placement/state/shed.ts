/**
 * Why a node must not lead, as bits: both for the shards and for display. Scripts rely on the numbers and names; 1 is
 * the operator's mark.
 */

/** The operator marked the node for maintenance. */
export const SHED_DRAIN = 1;
/** Large messages of this node do not reach a majority. */
export const SHED_EGRESS = 2;
/** This node does not reach the cold store, and others do. */
export const SHED_COLD = 4;
/** It recently gave up leaderships under which nothing was committed. */
export const SHED_STALL = 8;

/** In the order in which several are listed. */
const REASONS: readonly (readonly [bit: number, name: string])[] = [
  [SHED_EGRESS, 'cluster-egress'],
  [SHED_COLD, 'cold-health'],
  [SHED_DRAIN, 'maintenance-drain'],
  [SHED_STALL, 'commit-stall'],
];

/** Why it gives away what it leads. A stall concerns single groups, which it has already given up. */
export function reasonsToLeave(bits: number): number {
  return bits & ~SHED_STALL;
}

/**
 * The object that peers and operators read. A node without a path to the cold store still campaigns: a leader that
 * eventually refuses writes is better than none. It accepts no leadership, though: the others would return what it has
 * just given away, since it leads less than its share.
 */
export function describeShed(bits: number): Record<string, unknown> {
  const names = REASONS.filter(([bit]) => (bits & bit) !== 0).map(([, name]) => name);
  return {
    bits,
    state: names.length === 0 ? 'none' : names.join('|'),
    should_accept_transfer: bits === 0,
    should_campaign: (bits & ~(SHED_COLD | SHED_STALL)) === 0,
    should_shed_current_leaders: reasonsToLeave(bits) !== 0,
  };
}
