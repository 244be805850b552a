import { advanceCommit } from './commit.ts';
import { isVoter } from './configuration.ts';
import { confirmedRound } from './read-index.ts';
import { becomeFollower } from './roles.ts';
import type { Core } from './core.ts';
import type { Progress } from './progress.ts';
import type { AppendRequest, AppendResponse, Heartbeat, HeartbeatResponse, GroupSnapshotRequest } from './types.ts';

/**
 * A node that lost its log (an empty disk under an old node id). Raft assumes that a disk remembers (§3.8). Such a node
 * violates this twice: entries committed with its acknowledgement may be on one disk fewer than assumed, and it may
 * have voted in a term without knowing. Therefore:
 *
 * 1. Its host creates the core with `lost` 1 or 2: it neither votes nor campaigns, and reports that in every answer.
 * 2. The leader removes it from every count (commit, quorum check, reads) and forgets what it had acknowledged. Answers
 *    from before the loss are recognized by their round and dropped, because they refer to the lost log.
 * 3. It gets no entries until an operator allows this node to revert, once (openraft's allow_next_revert): an empty
 *    disk under an old name is more often a mistake than an intention. A node whose own log is damaged needs no
 *    permission (`lost` 2): its directory is the one that it always had.
 * 4. Then it is filled like a new node. It is restored when (a) a quorum that excludes the lost node confirmed this
 *    leader after the loss, (b) the leader has committed in its term, and (c) the node's disk has everything that was
 *    committed when (a) and (b) held.
 *
 * Why (a): suppose a newer leader committed X with the lost node's old acknowledgement. Its election, before the loss,
 * has a voter in common with the confirming quorum, and that voter is not the lost node; so it would have refused to
 * confirm an older leader. Hence the confirmed leader is the newest one that the lost node could have helped to elect,
 * and by leader completeness (§3.6.3) with (b) its commit index covers X.
 *
 * By (a) the other voters must be a quorum without the lost node: with two voters, losing one disk is losing the
 * majority, and no permission helps.
 *
 * One danger remains: a vote of the lost run in an election that never finished before the loss. The node waits two
 * election timeouts after its start before it votes again, and its vote in the current term goes to the current leader.
 */
export const RECOVERY_WAIT_TIMEOUTS = 2;

/**
 * This node's log is not the one it acknowledged: the disk is another one, or an older copy. Its content stays until a
 * leader replaces it. The node waits again before it votes, whatever it voted for since its start.
 */
export function loseLog(core: Core): void {
  if (core.lost !== 0) return;
  core.lost = 1;
  core.mayVote = false;
  core.ticksSinceBoot = 0;
  // Measured in ticks since boot, it would refuse leadership for as long as it has run.
  core.shyUntil = 0;
  if (core.role !== 'follower') becomeFollower(core, core.term, 0);
}

/** Operator: `node` may return with an older log, once. False when this node does not lead or does not know it. */
export function allowNextRevert(core: Core, node: number): boolean {
  const peer = core.peer(node);
  if (core.role !== 'leader' || peer === undefined) return false;
  core.revertAllowed.add(node);
  if (peer.recovery === 'asking') usePermission(core, peer);
  return true;
}

/** Leader: whether this answer is credible. Also detects that a peer lost its log. */
export function admitAnswer(core: Core, peer: Progress, message: AppendResponse | HeartbeatResponse): boolean {
  const { lost, boot, round } = message;
  // Answers carry the leader's own rounds, so an answer to a round of an earlier log is older than the loss.
  if (round !== 0 && round <= peer.floorRound) return false;
  if (lost !== 0 && peer.lostBoot !== boot) {
    startRecovery(core, peer, boot);
    // An earlier leader allowed this run to revert, so the operator need not ask each new leader again. A learner
    // counts in no quorum, and the operator already approved it by adding it.
    if (lost === 2 || !isVoter(core.configuration, peer.node)) core.revertAllowed.add(peer.node);
    if (core.revertAllowed.has(peer.node)) usePermission(core, peer);
    return false;
  }
  if (lost === 0 && peer.recovery === 'asking' && boot !== peer.lostBoot) {
    // The old disk is back. Probing finds out what it has, as for any peer.
    peer.recovery = 'none';
    peer.lostBoot = 0;
    return true;
  }
  if (lost === 0 && peer.restored) peer.lostBoot = 0;
  if (peer.recovery !== 'asking') return true;
  peer.recentlyActive = true;
  return false;
}

/** Leader: a peer refused what it had acknowledged, without reporting a lost log. The same rules apply. */
export function onRegression(core: Core, peer: Progress, boot: number): void {
  startRecovery(core, peer, boot);
  if (core.revertAllowed.has(peer.node)) usePermission(core, peer);
}

/** Leader: counts nodes that fulfil (a), (b) and (c) again. */
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

/** Follower: handles the leader's note about this node's own loss. */
export function noteRecovery(core: Core, message: AppendRequest | Heartbeat | GroupSnapshotRequest): void {
  // A note for another run of this node refers to another log.
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
