import { quorumValue } from './quorum.ts';
import type { Core, PendingRead } from './core.ts';
import type { ReadIndexRequest, ReadIndexResponse } from './types.ts';

/**
 * Linearizable reads without a log write (§6.4): the leader notes its commit index, proves with one round of answers
 * that it still led when the read arrived, and the reader waits until it has applied up to the index. Reads that arrive
 * during a round share the next one. The round number of each message is all the bookkeeping needed.
 */

/** Reads waiting at a leader; more are refused. Each takes a few dozen bytes, so this stays far below a MiB. */
const PENDING_READS_MAX = 8192;

/** Starts a read on this node. Returns false when there is no leader to ask or too many reads wait: try again later. */
export function readIndex(core: Core, context: number): boolean {
  if (core.role === 'leader') return admit(core, core.id, context);
  if (core.leader === 0) return false;
  core.send.push({ type: 'read-index', ...core.envelope(core.leader), context });
  return true;
}

/** Leader: a follower asks. */
export function onReadIndex(core: Core, message: ReadIndexRequest): void {
  if (core.role !== 'leader' || !admit(core, message.from, message.context)) {
    answer(core, message.from, message.context, 0);
  }
}

/** Follower: the leader answered. */
export function onReadIndexResponse(core: Core, message: ReadIndexResponse): void {
  core.readStates.push({ context: message.context, index: message.index });
}

/** Answers the reads that the quorum's rounds and the commit index allow. */
export function confirmReads(core: Core): void {
  // §6.4 step 1: until it committed in its own term, a new leader does not know what is committed.
  if (core.pendingReads.length === 0 || core.log.commit < core.termStart) return;
  const confirmed = confirmedRound(core);
  let done = 0;
  for (const read of core.pendingReads) {
    if (read.index === 0) read.index = core.log.commit;
    // Rounds only grow along the queue, so the first unconfirmed read ends the search.
    if (read.round > confirmed) break;
    answer(core, read.from, read.context, read.index);
    done += 1;
  }
  if (done > 0) core.pendingReads.splice(0, done);
}

/** Latest round that a quorum answered. Peers that lost their log do not count (recovery.ts says why). */
export function confirmedRound(core: Core): number {
  return quorumValue(core.configuration, (node) => {
    if (node === core.id) return Infinity;
    const peer = core.peer(node);
    return peer !== undefined && peer.counts ? peer.ackedRound : 0;
  });
}

/** The leadership is over: waiting reads can no longer be answered. */
export function refuseReads(core: Core): void {
  for (const read of core.pendingReads) answer(core, read.from, read.context, 0);
  core.pendingReads = [];
}

function admit(core: Core, from: number, context: number): boolean {
  if (core.pendingReads.length >= PENDING_READS_MAX) return false;
  const committedInTerm = core.log.commit >= core.termStart;
  const read: PendingRead = { from, context, round: core.round + 1, index: committedInTerm ? core.log.commit : 0 };
  core.pendingReads.push(read);
  if (core.isAlone()) confirmReads(core);
  else core.wantHeartbeat = true;
  return true;
}

function answer(core: Core, to: number, context: number, index: number): void {
  if (to === core.id) core.readStates.push({ context, index });
  else core.send.push({ type: 'read-index-response', ...core.envelope(to), context, index });
}
