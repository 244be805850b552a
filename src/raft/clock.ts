import { campaign, mayCampaign } from './election.ts';
import { quorumValue } from './quorum.ts';
import { becomeFollower } from './roles.ts';
import { endStall, noteCommits } from './stall.ts';
import { tickTransfer } from './transfer.ts';
import type { Core } from './core.ts';

/** One tick of logical time. */
export function tick(core: Core): void {
  core.ticksSinceBoot += 1;
  core.electionElapsed += 1;
  if (core.role === 'leader') tickLeader(core);
  else if (core.electionElapsed >= core.electionTimeout) onElectionTimeout(core);
}

function tickLeader(core: Core): void {
  for (const peer of core.peers) peer.tick(core.ticksSinceBoot);
  noteCommits(core);
  tickTransfer(core);
  if (core.role !== 'leader') return;
  if (core.electionElapsed >= core.config.electionTicks) {
    core.electionElapsed = 0;
    if (!quorumIsActive(core)) {
      // §6.2: a leader that cannot reach a majority cannot commit; clients should look elsewhere.
      becomeFollower(core, core.term, 0);
      return;
    }
    endStall(core);
    if (core.role !== 'leader') return;
  }
  // Not since the election: the groups of a shard, which tick together, send their heartbeats together, in one frame to each peer.
  if (core.ticksSinceBoot % core.config.heartbeatTicks === 0) core.wantHeartbeat = true;
}

function onElectionTimeout(core: Core): void {
  if (mayCampaign(core)) {
    campaign(core);
    return;
  }
  // Learners, removed and draining nodes and nodes that lost their log only notice that nobody leads.
  core.electionElapsed = 0;
  core.leader = 0;
}

/**
 * Did a quorum answer something that was asked since the last check? Starts the next period. Answers to what was asked before
 * do not count: behind a thin link they trickle in for long, and nobody may follow any more.
 */
function quorumIsActive(core: Core): boolean {
  const active = quorumValue(core.configuration, (node) => {
    if (node === core.id) return 1;
    const peer = core.peer(node);
    return peer !== undefined && peer.counts && peer.answeredSince(core.checkedRound) ? 1 : 0;
  });
  core.peers = core.peers.filter((peer) => !peer.leaving || peer.recentlyActive);
  for (const peer of core.peers) {
    peer.wasActive = peer.answeredSince(core.checkedRound);
    peer.recentlyActive = false;
  }
  core.checkedRound = core.round;
  return active >= 1;
}
