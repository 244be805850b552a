/**
 * Why a node shall not lead, as bits: so they travel to the shards, and so they are shown (service.md sections 2 and 3,
 * wire-facts 3.1). service.md fixes 1 for the operator's mark, hence the egress gate has another number than there.
 */

/** The operator marked the node for maintenance. */
export const SHED_DRAIN = 1;
/** Large messages of this node do not reach a majority. */
export const SHED_EGRESS = 2;

/** In the order in which several are named. */
const REASONS: readonly (readonly [bit: number, name: string])[] = [
  [SHED_EGRESS, 'cluster-egress'],
  [SHED_DRAIN, 'maintenance-drain'],
];

/** The object that peers and operators read. Both reasons forbid the same. */
export function describeShed(bits: number): Record<string, unknown> {
  const names = REASONS.filter(([bit]) => (bits & bit) !== 0).map(([, name]) => name);
  return {
    bits,
    state: names.length === 0 ? 'none' : names.join('|'),
    should_accept_transfer: bits === 0,
    should_campaign: bits === 0,
    should_shed_current_leaders: bits !== 0,
  };
}
