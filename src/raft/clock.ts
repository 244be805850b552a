import { campaign, mayCampaign } from './election.ts';
import { quorumValue } from './quorum.ts';
import { becomeFollower } from './roles.ts';
import { endStall, noteCommits } from './stall.ts';
import { tickTransfer } from './transfer.ts';
import type { Core } from './core.ts';

/**
 * Bytes that a busy machine writes and flushes in a tick of 100 ms, a tenth of what a quiet one does: 31 MiB took 2.5
 * to 3.9 s at a load of 30 on two cores.
 */
const WRITTEN_BYTES_PER_TICK = 1024 * 1024;
/** More bytes are written in several steps, with answers in between. */
const WRITING_TICKS_MAX = 40;

/** Ticks of silence to allow a node that writes this many bytes. */
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
  // Counts since boot, not since the election: the groups of a shard tick together, so their heartbeats go in one frame
  // per peer.
  if (core.ticksSinceBoot % core.config.heartbeatTicks === 0) core.wantHeartbeat = true;
}

/** Peers that write many bytes answer when they are done. Only active peers count: others have nothing in flight. */
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
 * Whether a quorum answered something sent since the last check; starts the next period. Answers to earlier requests do
 * not count: over a thin link they may trickle in for long after every follower has left.
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
  core.commitBefore = core.commitChecked;
  core.commitChecked = core.log.commit;
  return active >= 1;
}
