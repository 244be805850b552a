/** Before a node stops: what it leads goes to others, so that its groups do not wait for an election. */
import type { Group } from '../group/group.ts';

/** A transfer takes a few round trips; one that takes longer is left to an election. */
export const HAND_OVER_MS = 1000;

/** Starts the transfers. True while some are under way: the shard goes on with its turns, and asks again. */
export function handOver(groups: readonly Group[]): boolean {
  let isBusy = false;
  for (const group of groups) {
    const { raft } = group;
    if (!raft.refusesLead) raft.refusesLead = true;
    if (!group.leads) continue;
    if (raft.transferee === 0) {
      const heir = heirOf(group);
      // What came before goes into the log; what comes during the transfer waits for the new leader.
      group.seal();
      if (heir === 0 || raft.transferLeadership(heir) !== 'started') continue;
    }
    isBusy = true;
  }
  return isBusy;
}

/** The voter that has the most of the log; 0 when there is none that answers. */
function heirOf({ raft }: Group): number {
  let heir = 0;
  let best = -1;
  for (const { node, match, state, recentlyActive, recovery } of raft.peers()) {
    if (!raft.configuration.voters.includes(node) || recovery !== 'none') continue;
    if (state !== 'replicate' || !recentlyActive || match <= best) continue;
    heir = node;
    best = match;
  }
  return heir;
}
