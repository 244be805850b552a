import { isVoter } from './configuration.ts';
import { onTransferFailed } from './stall.ts';
import type { Core } from './core.ts';
import type { Progress } from './progress.ts';
import type { TransferOutcome } from './types.ts';

/**
 * Leadership transfer (§3.10): stop accepting proposals, wait until the target has everything, tell it to campaign at
 * once. A lagging target is refused at the start, because the group accepts no writes while it would catch up. One that
 * stops answering costs at most an election timeout.
 */
export function transferLeadership(core: Core, to: number): TransferOutcome {
  if (core.role !== 'leader') return 'not-leader';
  if (!isVoter(core.configuration, to)) return 'not-voter';
  if (to === core.id) return 'started';
  if (core.transferee !== 0) return core.transferee === to ? 'started' : 'busy';
  const peer = core.peer(to);
  if (peer === undefined) return 'not-voter';
  // One that leaves may be the only other node with the whole log, and then a damaged state is repaired from there.
  if (!core.wantsState && !core.configuration.voters.includes(to)) return 'not-voter';
  if (peer.refusesLead || !peer.counts) return 'refused';
  // Everything was sent and is being answered, so what is missing is in flight; or no node has more of the log, as with
  // links that are always full.
  const isNear = peer.room > 0 || peer.match >= core.log.commit;
  if (peer.state !== 'replicate' || !peer.recentlyActive || !isNear) return 'lagging';
  core.transferee = to;
  core.transferElapsed = 0;
  finishTransfer(core, peer);
  return 'started';
}

/** The target has the whole log, so it can win (§3.6.1). */
export function finishTransfer(core: Core, peer: Progress): void {
  if (core.role !== 'leader' || core.transferee !== peer.node) return;
  if (peer.refusesLead) core.transferee = 0;
  else if (peer.match === core.log.last) {
    core.send.push({ type: 'timeout-now', ...core.envelope(peer.node) });
  }
}

/** §3.10: not finished within an election timeout, so the old leader continues. */
export function tickTransfer(core: Core): void {
  if (core.transferee === 0) return;
  core.transferElapsed += 1;
  if (core.transferElapsed < core.config.electionTicks) return;
  core.transferee = 0;
  onTransferFailed(core);
}
