import { encodeConfiguration, firstStep, isJoint } from './configuration.ts';
import { appendAsLeader } from './roles.ts';
import { ENTRY_CONFIG } from './types.ts';
import type { Core } from './core.ts';
import type { Target } from './configuration.ts';

/**
 * Starts a change of membership (§4.3). Returns the index of its first entry: the joint configuration when the voters
 * change (the leader appends the final one when the joint one is committed, see commit.ts), the final one when only
 * learners do. Returns 0 when it cannot start now:
 * - this node does not lead, or is handing over;
 * - an earlier change is not committed, or still joint: one at a time (§4.1);
 * - nothing of this term is committed yet: an unfinished change of an earlier leader could still exist (the flaw in the
 *   thesis' single-server change, found after its publication).
 */
export function proposeConfiguration(core: Core, target: Target): number {
  if (core.role !== 'leader' || core.transferee !== 0 || !core.isVoter()) return 0;
  if (isJoint(core.configuration) || core.configurationIndex > core.log.commit) return 0;
  if (core.log.commit < core.termStart) return 0;
  return appendAsLeader(core, ENTRY_CONFIG, encodeConfiguration(firstStep(core.configuration, target))).index;
}
