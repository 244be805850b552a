import { campaignForced, onVoteRequest, onVoteResponse } from './election.ts';
import { installOld, onAppend, onHeartbeat, onSnapshot } from './follower.ts';
import { onReadIndex, onReadIndexResponse } from './read-index.ts';
import { onAppendResponse, onHeartbeatResponse } from './replication.ts';
import { becomeFollower } from './roles.ts';
import type { Core } from './core.ts';
import type { Message } from './types.ts';

/** All control flow of messages: first the term (§3.3), then the message itself. */
export function step(core: Core, message: Message): void {
  if (message.term > core.term) {
    if (!adoptTerm(core, message)) return;
  } else if (message.term < core.term && !answerOldTerm(core, message)) return;
  dispatch(core, message);
}

/** A newer term. Returns false when the message must be ignored. */
function adoptTerm(core: Core, message: Message): boolean {
  if (message.type === 'vote') {
    // §4.2.3: a node that heard from a leader within the minimum election timeout does not help to depose it. A leader
    // is under its own lease until the quorum check ends it.
    const inLease = core.leader !== 0 && core.electionElapsed < core.config.electionTicks;
    if (inLease && !message.force) return false;
    // §9.6: a pre-vote changes no term.
    if (message.pre) return true;
  }
  // The grant of a pre-vote names this node's own next term.
  if (message.type === 'vote-response' && message.pre && message.granted) return true;
  const fromLeader = message.type === 'append' || message.type === 'heartbeat' || message.type === 'snapshot';
  becomeFollower(core, message.term, fromLeader ? message.from : 0);
  return true;
}

/** An older term. Returns true when the message must be handled anyway. */
function answerOldTerm(core: Core, message: Message): boolean {
  switch (message.type) {
    case 'append':
    case 'heartbeat':
    case 'snapshot':
      // Tells a deposed leader the newer term. It may also be the only leader while this node's term ran ahead (it was
      // cut off as a candidate); then it steps down and the group settles on a newer term.
      core.send.push({ type: 'heartbeat-response', ...core.envelope(message.from), ...core.note(0) });
      if (message.type === 'snapshot') installOld(core, message);
      return false;
    case 'vote':
      core.send.push({ type: 'vote-response', ...core.envelope(message.from), pre: message.pre, granted: false });
      return false;
    case 'read-index':
    case 'read-index-response':
      // Safe in any term: the index was confirmed, or will be, by a quorum after the read came (§6.4).
      return true;
    case 'vote-response':
      // A pre-vote changes no term, so the refusing node may still be in an older one.
      return message.pre && !message.granted;
    default:
      return false;
  }
}

function dispatch(core: Core, message: Message): void {
  switch (message.type) {
    case 'append':
      return onAppend(core, message);
    case 'append-response':
      return onAppendResponse(core, message);
    case 'heartbeat':
      return onHeartbeat(core, message);
    case 'heartbeat-response':
      return onHeartbeatResponse(core, message);
    case 'vote':
      return onVoteRequest(core, message);
    case 'vote-response':
      return onVoteResponse(core, message);
    case 'snapshot':
      return onSnapshot(core, message);
    case 'timeout-now':
      if (!core.refusesLead || core.isAlone()) campaignForced(core);
      return;
    case 'read-index':
      return onReadIndex(core, message);
    case 'read-index-response':
      return onReadIndexResponse(core, message);
  }
}
