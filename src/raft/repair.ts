import { planted } from '../base/planted.ts';
import type { Core } from './core.ts';
import type { Progress } from './progress.ts';

/**
 * A node whose disk changed its applied state, while its log is sound. It says so in its answers, and the leader sends
 * a snapshot as if it were far behind, but entries, acknowledgements and votes go on: nothing that they rest on is
 * gone. The snapshot replaces the applied state only. It ends at an index that the node's log has (anything else would
 * take acknowledged entries from it), and what follows is applied again. One that does not fit is dropped, and the next
 * answer asks again.
 */

/** Leader: the answer to `round` asks for the state. One transfer at a time. */
export function noteState(core: Core, peer: Progress, round: number): void {
  if (planted('repair-not-sent')) return;
  if (peer.wantsState || round <= peer.stateRound || peer.state !== 'replicate') return;
  peer.wantsState = true;
  core.sendSnapshot(peer);
}

/** Leader: the host's transfer is over, whatever came of it. Answers under way may still ask for it. */
export function stateSent(core: Core, peer: Progress): void {
  if (!peer.wantsState) return;
  peer.wantsState = false;
  peer.stateRound = core.round;
}
