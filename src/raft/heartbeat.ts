import type { Core } from './core.ts';
import type { Progress } from './progress.ts';

/**
 * Keeps the follower from campaigning and tells it the commit index, cut to what it is known to have, because the
 * message has no previous entry to compare. Round 0 wants no answer; any other must be new.
 */
export function sendHeartbeat(core: Core, peer: Progress, round: number): void {
  const commit = Math.min(peer.match, core.log.commit);
  peer.sentCommit = Math.max(peer.sentCommit, commit);
  core.send.push({
    type: 'heartbeat',
    from: core.id,
    to: peer.node,
    term: core.term,
    commit,
    round,
    allowedBoot: peer.allowedBoot,
    restored: peer.restored,
  });
}
