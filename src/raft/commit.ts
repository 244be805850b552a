import { planted } from '../base/planted.ts';
import { onConfigurationCommitted } from './membership.ts';
import { quorumValue } from './quorum.ts';
import { confirmReads } from './read-index.ts';
import type { Core } from './core.ts';

/** Leader: moves the commit index to what a quorum has on disk, this node's disk included (§3.6.2, §10.2.1). */
export function advanceCommit(core: Core): void {
  const log = core.log;
  const reached = core.isAlone() ? log.stable : quorumMatch(core);
  // Invariant 5 (§3.6.2, figure 8): counting commits only entries of the leader's own term; older ones follow by log matching.
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
