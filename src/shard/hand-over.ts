/** Leadership transfers that this node starts by itself: before it stops, and while its disk has no space. */
import type { Group } from '../group/group.ts';

/** A transfer takes a few round trips; one that takes longer is left to an election. */
export const HAND_OVER_MS = 1000;

/**
 * Before a node stops, so that its groups do not wait for an election. Returns true while transfers are in progress:
 * the shard continues its turns and asks again.
 */
export function handOver(groups: readonly Group[]): boolean {
  let isBusy = false;
  for (const group of groups) {
    group.raft.electionPriority = 'none';
    if (passOn(group)) isBusy = true;
  }
  return isBusy;
}

/** Starts the transfer to the most up-to-date voter that accepts it. Returns true while one is in progress. */
export function passOn(group: Group): boolean {
  if (!group.leads) return false;
  const { raft } = group;
  if (raft.transferee !== 0) return true;
  const heirs = heirsOf(group);
  if (heirs.length === 0) return false;
  // Earlier commands go into the log first; later ones wait for the new leader.
  group.seal();
  return heirs.some((heir) => raft.transferLeadership(heir) === 'started');
}

/** Voters that answer, most up-to-date first. */
function heirsOf({ raft }: Group): number[] {
  const { voters, votersOutgoing } = raft.configuration;
  // A damaged state may have no other node to be repaired from than one that leaves.
  const heirs = raft.wantsState ? [...voters, ...votersOutgoing] : voters;
  return raft
    .peers()
    .filter(({ node, state, recentlyActive, recovery }) => {
      return heirs.includes(node) && recovery === 'none' && state === 'replicate' && recentlyActive;
    })
    .sort((a, b) => b.match - a.match)
    .map(({ node }) => node);
}
