import { advanceCommit } from './commit.ts';
import { isVoter } from './configuration.ts';
import { confirmedRound } from './read-index.ts';
import { becomeFollower } from './roles.ts';
import type { Core } from './core.ts';
import type { Progress } from './progress.ts';
import type { AppendRequest, AppendResponse, Heartbeat, HeartbeatResponse, SnapshotRequest } from './types.ts';

/**
 * A node that lost its log (empty disk under an old node id). Raft assumes that a disk remembers (§3.8); such a node
 * breaks that twice over: entries that were committed with its acknowledgement may be on one disk less than thought, and
 * it may have voted in a term and not know. So:
 *
 * 1. Its host creates the core with `mayVote` false: it neither votes nor campaigns, and says `lost` in every answer.
 * 2. The leader takes it out of every count (commit, quorum check, reads) and forgets what it had acknowledged. Answers
 *    from before are recognized by their round and dropped: they speak of the lost log.
 * 3. It gets no entries until an operator allowed this node to revert, once (openraft's allow_next_revert): a wiped
 *    disk under an old name is more often a mistake than an intention.
 * 4. Then it is filled like a new node. It is whole again when (a) this leader was confirmed after the loss by a quorum
 *    in which the lost node does not count, (b) the leader has committed in its term, and (c) the node's disk has all
 *    that was committed when (a) and (b) held.
 *
 * Why (a): let a newer leader have committed X with the lost node's old acknowledgement. Its election, before the loss,
 * has a voter in common with the confirming quorum, and that voter is not the lost node; so it would have refused to
 * confirm an older leader. Hence the confirmed leader is the newest one that the lost node could have helped to elect,
 * and by leader completeness (§3.6.3) with (b) its commit index covers X.
 *
 * By (a) the other voters must be a quorum without the lost node: of two voters, the loss of one disk is the loss of a
 * majority, and no permission helps.
 *
 * What remains is a vote of the lost run in an election that never finished before the loss. The node waits two election
 * timeouts after its start before it votes again, and its vote in the present term goes to the present leader.
 */
export const RECOVERY_WAIT_TIMEOUTS = 2;

/**
 * This node's log is not what it acknowledged: its disk is another one, or an older copy. What it has stays until a leader replaces
 * it; whatever it voted for since its start, it waits again before it votes.
 */
export function loseLog(core: Core): void {
  if (core.lost !== 0) return;
  core.lost = 1;
  core.mayVote = false;
  core.ticksSinceBoot = 0;
  // In those ticks: it would not take a leadership for as long as it has run.
  core.shyUntil = 0;
  if (core.role !== 'follower') becomeFollower(core, core.term, 0);
}

/** Operator: `node` may come back with an older log, once. False when this node does not lead or does not know it. */
export function allowNextRevert(core: Core, node: number): boolean {
  const peer = core.peer(node);
  if (core.role !== 'leader' || peer === undefined) return false;
  core.revertAllowed.add(node);
  if (peer.recovery === 'asking') usePermission(core, peer);
  return true;
}

/** Leader: may this answer be believed? Also notices that a peer lost its log. */
export function admitAnswer(core: Core, peer: Progress, message: AppendResponse | HeartbeatResponse): boolean {
  const { lost, boot, round } = message;
  // Messages are answered in the leader's own rounds, so an answer to a round of an earlier log is older than the loss.
  if (round !== 0 && round <= peer.floorRound) return false;
  if (lost !== 0 && peer.lostBoot !== boot) {
    startRecovery(core, peer, boot);
    // An earlier leader allowed this very run to revert: the operator need not ask each new leader again.
    // A learner counts nowhere, and adding it was the operator's word.
    if (lost === 2 || !isVoter(core.configuration, peer.node)) core.revertAllowed.add(peer.node);
    if (core.revertAllowed.has(peer.node)) usePermission(core, peer);
    return false;
  }
  if (lost === 0 && peer.recovery === 'asking' && boot !== peer.lostBoot) {
    // The old disk is back. What it has is found out by probing, as for any peer.
    peer.recovery = 'none';
    peer.lostBoot = 0;
    return true;
  }
  if (lost === 0 && peer.restored) peer.lostBoot = 0;
  if (peer.recovery !== 'asking') return true;
  peer.recentlyActive = true;
  return false;
}

/** Leader: a peer refused what it had acknowledged, without saying that it lost its log. Same rules. */
export function onRegression(core: Core, peer: Progress, boot: number): void {
  startRecovery(core, peer, boot);
  if (core.revertAllowed.has(peer.node)) usePermission(core, peer);
}

/** Leader: a node that fulfils (a), (b) and (c) counts again. */
export function endRecoveries(core: Core): void {
  let ended = false;
  for (const peer of core.peers) {
    if (peer.recovery !== 'allowed') continue;
    if (peer.recoveryTarget === Infinity) {
      if (core.log.commit < core.termStart || confirmedRound(core) < peer.recoveryRound) continue;
      peer.recoveryTarget = core.log.commit;
    }
    if (peer.match < peer.recoveryTarget) continue;
    peer.recovery = 'none';
    peer.recoveryTarget = Infinity;
    core.wantHeartbeat = true;
    ended = true;
  }
  if (ended) advanceCommit(core);
}

/** Follower: what the leader says about this node's own loss. */
export function noteRecovery(core: Core, message: AppendRequest | Heartbeat | SnapshotRequest): void {
  // A note for another run of this node speaks of another log.
  if (core.lost === 0 || message.allowedBoot !== core.bootId) return;
  core.lost = 2;
  if (!message.restored || core.ticksSinceBoot < RECOVERY_WAIT_TIMEOUTS * core.config.electionTicks) return;
  core.lost = 0;
  core.mayVote = true;
  if (core.vote === 0) core.vote = message.from;
}

function startRecovery(core: Core, peer: Progress, boot: number): void {
  peer.recovery = 'asking';
  peer.lostBoot = boot;
  peer.revert(core.round);
  if (core.transferee === peer.node) core.transferee = 0;
}

function usePermission(core: Core, peer: Progress): void {
  core.revertAllowed.delete(peer.node);
  peer.recovery = 'allowed';
  peer.recoveryTarget = Infinity;
  peer.recoveryRound = core.round + 1;
  peer.becomeProbe(core.log.last + 1);
  core.wantReplicate = true;
  core.wantHeartbeat = true;
}
