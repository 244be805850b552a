import { encodeConfiguration, firstStep, isJoint, isVoter, withoutOutgoing } from './configuration.ts';
import { sendHeartbeat } from './heartbeat.ts';
import { appendAsLeader, becomeFollower } from './roles.ts';
import { ENTRY_CONFIG } from './types.ts';
import type { Core } from './core.ts';
import type { MembershipTarget } from './configuration.ts';

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
export function onConfigurationCommitted(core: Core): void {
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
  if (heir !== 0) core.send.push({ type: 'timeout-now', from: core.id, to: heir, term: core.term });
  becomeFollower(core, core.term, 0);
}
