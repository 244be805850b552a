import { campaign, mayCampaign } from './election.ts';
import { quorumValue } from './quorum.ts';
import { becomeFollower } from './roles.ts';
import { endStall, noteCommits } from './stall.ts';
import { tickTransfer } from './transfer.ts';
import type { Core } from './core.ts';

/**
 * What a busy machine writes and flushes in a tick of 100 ms, a tenth of what a quiet one does: 31 MiB took 2.5 to 3.9 s at a load of 30
 * on two cores.
 */
const WRITTEN_BYTES_PER_TICK = 1024 * 1024;
/** More is written in several goes, with answers between. */
const WRITING_TICKS_MAX = 40;

/** Ticks that a node may be silent for because it writes so many bytes. */
export function writingTicks(bytes: number): number {
  return Math.min(WRITING_TICKS_MAX, Math.floor(bytes / WRITTEN_BYTES_PER_TICK));
}

/** One tick of logical time. */
export function tick(core: Core): void {
  core.ticksSinceBoot += 1;
  core.electionElapsed += 1;
  if (core.role === 'leader') tickLeader(core);
  else if (core.electionElapsed >= core.electionTimeout + core.writingTicks) onElectionTimeout(core);
}

function tickLeader(core: Core): void {
  for (const peer of core.peers) peer.tick(core.ticksSinceBoot);
  noteCommits(core);
  tickTransfer(core);
  if (core.role !== 'leader') return;
  if (core.electionElapsed >= core.config.electionTicks + peersWritingTicks(core)) {
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

/** Peers that write many bytes answer when they are done. Of those that are there: others have nothing under way that matters. */
function peersWritingTicks(core: Core): number {
  let bytes = 0;
  for (const peer of core.peers) if (peer.wasActive) bytes = Math.max(bytes, peer.writingBytes);
  return writingTicks(bytes);
}

function onElectionTimeout(core: Core): void {
  if (mayCampaign(core)) {
    campaign(core);
    return;
  }
  // Learners, removed and draining nodes and nodes that lost their log only notice that there is no leader.
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
