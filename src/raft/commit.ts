/** A leader's commit index, and changes of membership, whose second step follows a commit. */
import { planted } from '../base/planted.ts';
import { encodeConfiguration, firstStep, isJoint, isVoter, withoutOutgoing } from './configuration.ts';
import { sendHeartbeat } from './heartbeat.ts';
import { quorumValue } from './quorum.ts';
import { confirmReads } from './read-index.ts';
import { appendAsLeader, becomeFollower } from './roles.ts';
import { ENTRY_CONFIG } from './types.ts';
import type { MembershipTarget } from './configuration.ts';
import type { Core } from './core.ts';

/** Leader: moves the commit index to what a quorum has on disk, this node's disk included (§3.6.2, §10.2.1). */
export function advanceCommit(core: Core): void {
  const log = core.log;
  const reached = core.isAlone() ? log.stable : quorumMatch(core);
  // Invariant 5 (§3.6.2, figure 8): counting commits only entries of the leader's own
  // term; older ones follow by log matching.
  if (reached <= log.commit) return;
  if (reached < core.termStart && !planted('old-term-committed-by-counting')) return;
  log.commitTo(reached);
  core.wantReplicate = true;
  if (core.configurationIndex <= reached) onConfigurationCommitted(core);
  if (core.pendingReads.length > 0) confirmReads(core);
}

function quorumMatch(core: Core): number {
  return quorumValue(core.configuration, (node) => {
    if (node === core.id) return core.log.stable;
    const peer = core.peer(node);
    if (peer === undefined || !peer.counts) return 0;
    if (planted('sent-counts-as-acknowledged')) return peer.next - 1;
    if (planted('one-ack-counts-for-two')) return Math.max(...core.peers.map(({ match }) => match));
    return peer.match;
  });
}

/**
 * Starts a change of membership (§4.3). Returns the index of its first entry: the joint configuration when the voters
 * change (the leader appends the final one when the joint one is committed), the final one when only
 * learners do. Returns 0 when it cannot start now:
 * - this node does not lead, or is handing over;
 * - an earlier change is not committed, or still joint: one at a time (§4.1);
 * - nothing of this term is committed yet: an unfinished change of an earlier leader could still exist (the flaw in the
 *   thesis' single-server change, found after its publication).
 */
export function proposeConfiguration(core: Core, target: MembershipTarget): number {
  if (core.role !== 'leader' || core.transferee !== 0 || !core.isVoter()) return 0;
  if (isJoint(core.configuration) || core.configurationIndex > core.log.commit) return 0;
  if (core.log.commit < core.termStart) return 0;
  return appendAsLeader(core, ENTRY_CONFIG, encodeConfiguration(firstStep(core.configuration, target))).index;
}

/** §4.3: once the joint configuration is committed the leader moves on to the new one. */
function onConfigurationCommitted(core: Core): void {
  if (isJoint(core.configuration)) {
    appendAsLeader(core, ENTRY_CONFIG, encodeConfiguration(withoutOutgoing(core.configuration)));
    return;
  }
  if (isVoter(core.configuration, core.id)) return;
  // §4.2.2: a leader that is no longer a voter has managed the change up to here, without counting itself. It hands
  // over to the most up-to-date voter so that the group does not wait for a timeout.
  let heir = 0;
  let best = -1;
  for (const peer of core.peers) {
    if (!core.configuration.voters.includes(peer.node) || !peer.counts || peer.refusesLead) continue;
    if (peer.match > best) {
      heir = peer.node;
      best = peer.match;
    }
  }
  // Followers must learn the commit index even though the group briefly has no leader.
  for (const peer of core.peers) {
    sendHeartbeat(core, peer, 0);
  }
  if (heir !== 0) core.send.push({ type: 'timeout-now', ...core.envelope(heir) });
  becomeFollower(core, core.term, 0);
}
