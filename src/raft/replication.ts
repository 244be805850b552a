import { assert } from '../base/assert.ts';
import { advanceCommit } from './commit.ts';
import { entryBytes } from './log.ts';
import { sendHeartbeat } from './heartbeat.ts';
import { confirmReads } from './read-index.ts';
import { admitAnswer, endRecoveries, onRegression } from './recovery.ts';
import { noteState, stateSent } from './repair.ts';
import { finishTransfer } from './transfer.ts';
import type { Core } from './core.ts';
import type { Progress } from './progress.ts';
import type { AppendResponse, HeartbeatResponse } from './types.ts';

/** Entry bytes that a repeated probe may carry: about as many as the messages around them take. */
const REPEAT_BYTES_MAX = 512;

/** Leader, once per `take`: sends what the peers need in as few messages as the byte limits allow (§10.2). */
export function sendToPeers(core: Core): void {
  for (const peer of core.peers) {
    if (core.wantReplicate) replicateTo(core, peer);
    if (core.wantHeartbeat) sendHeartbeat(core, peer, (core.round += 1));
  }
  core.wantReplicate = false;
  core.wantHeartbeat = false;
  const left = core.configurationIndex;
  if (core.peers.some((peer) => peer.leaving && peer.sentCommit >= left)) {
    core.peers = core.peers.filter((peer) => !peer.leaving || peer.sentCommit < left);
  }
}

export function onAppendResponse(core: Core, message: AppendResponse): void {
  const peer = leaderPeer(core, message);
  if (peer === undefined) return;
  if (message.reject) onReject(core, peer, message);
  else onAccept(core, peer, message.index);
  afterAnswer(core);
}

export function onHeartbeatResponse(core: Core, message: HeartbeatResponse): void {
  const peer = leaderPeer(core, message);
  if (peer === undefined) return;
  peer.probeSent = false;
  if (!hasAll(core, peer)) core.wantReplicate = true;
  if (peer.state === 'replicate' && peer.match < peer.next - 1) {
    // Appends are in flight and none was answered for a whole heartbeat, so one may be lost. An empty append at the end
    // of what was sent makes the peer either acknowledge or refuse.
    if (peer.heartbeatMatch === peer.match) sendAppend(core, peer, 0);
    peer.heartbeatMatch = peer.match;
  }
  afterAnswer(core);
}

/** It acknowledged the whole log, and was told how far that is committed. */
function hasAll({ log }: Core, { state, match, sentCommit }: Progress): boolean {
  return state === 'replicate' && match === log.last && sentCommit === log.commit;
}

/**
 * The transfer of a snapshot is over. The peer usually reported one that it has, up to `index`, but that answer may
 * have been lost, and a peer that seems to miss a snapshot gets nothing else. Without one it is asked for its position.
 */
export function snapshotEnded(core: Core, node: number, index?: number): void {
  const peer = core.peer(node);
  if (peer === undefined) return;
  stateSent(core, peer);
  if (peer.state !== 'snapshot') return;
  peer.becomeProbe((index ?? peer.match) + 1);
  // Not immediately: the next heartbeat answer shows that the peer is reachable.
  peer.probeSent = true;
}

function leaderPeer(core: Core, message: AppendResponse | HeartbeatResponse): Progress | undefined {
  if (core.role !== 'leader') return undefined;
  const peer = core.peer(message.from);
  if (peer === undefined || !admitAnswer(core, peer, message)) return undefined;
  peer.recentlyActive = true;
  peer.refusesLead = message.refusesLead;
  if (message.round > peer.ackedRound) peer.ackedRound = message.round;
  if (message.wantsState) noteState(core, peer, message.round);
  return peer;
}

/** In addition to its content, an answer may confirm reads and recoveries. */
function afterAnswer(core: Core): void {
  if (core.role !== 'leader') return;
  confirmReads(core);
  endRecoveries(core);
}

function onAccept(core: Core, peer: Progress, index: number): void {
  assert(index <= core.log.last, `node ${peer.node} acknowledges ${index}, the leader's log ends at ${core.log.last}`);
  const news = peer.acknowledged(index, core.ticksSinceBoot);
  if (news) peer.matchRound = core.round;
  if (index < peer.match) return;
  if (peer.state === 'probe') peer.becomeReplicate();
  else if (peer.state === 'snapshot') {
    // Resumes as soon as the log continues from the peer's position. Otherwise the log was compacted meanwhile and the
    // peer needs another snapshot.
    if (peer.match >= core.log.snapshotIndex) peer.becomeReplicate();
    else peer.becomeProbe(peer.match + 1);
  }
  core.wantReplicate = true;
  if (!news) return;
  advanceCommit(core);
  finishTransfer(core, peer);
}

/** §3.5: the peer's log differs at the previous entry. The hint skips a whole term per round trip. */
function onReject(core: Core, peer: Progress, message: AppendResponse): void {
  if (message.index <= peer.match) {
    // An append before this one was lost or overtaken; start again from what the peer is known to have.
    if (message.round > peer.matchRound) onRegression(core, peer, message.boot);
    return;
  }
  if (peer.state === 'replicate') {
    // An append before this one was lost or overtaken; start again from what is known to be there.
    peer.becomeProbe(peer.match + 1);
  } else if (peer.state === 'probe') {
    if (message.index !== peer.next - 1) return;
    const agree = core.log.lastIndexNotAfterTerm(message.hintIndex, message.hintTerm);
    peer.becomeProbe(Math.min(message.index, agree + 1));
  }
  core.wantReplicate = true;
}

function replicateTo(core: Core, peer: Progress): void {
  // No message carried the new commit index: send it alone, so that followers apply without waiting for a heartbeat.
  if (peer.recovery === 'asking' || peer.state === 'snapshot') return;
  if (peer.state === 'probe') {
    if (!peer.probeSent) sendAppend(core, peer, peer.probed ? repeatBytes(core, peer) : messageBytes(core, peer));
    return;
  }
  while (peer.next <= core.log.last && peer.room > 0) {
    if (!sendAppend(core, peer, messageBytes(core, peer))) return;
  }
  // Nothing carried the new commit index: tell it alone, so that followers apply without waiting for a heartbeat.
  if (Math.min(peer.match, core.log.commit) > peer.sentCommit) sendHeartbeat(core, peer, 0);
}

/** The previous append may still be in flight; repeating it with each heartbeat would fill a thin link. */
function repeatBytes({ log }: Core, { next }: Progress): number {
  const [first] = next > log.snapshotIndex ? log.entriesFrom(next, 1) : [];
  return first === undefined || entryBytes(first) > REPEAT_BYTES_MAX ? 0 : REPEAT_BYTES_MAX;
}

function messageBytes(core: Core, peer: Progress): number {
  return Math.min(core.config.maxMessageBytes, peer.room);
}

/** One append from peer.next on; with maxBytes 0 it has no entries. Returns false when it became a snapshot. */
function sendAppend(core: Core, peer: Progress, maxBytes: number): boolean {
  const { log } = core;
  const prevIndex = peer.next - 1;
  const prevTerm = log.term(prevIndex);
  if (prevTerm < 0) {
    sendSnapshot(core, peer);
    return false;
  }
  const entries = maxBytes === 0 ? [] : log.entriesFrom(peer.next, maxBytes);
  core.round += 1;
  core.send.push({
    type: 'append',
    from: core.id,
    to: peer.node,
    term: core.term,
    prevIndex,
    prevTerm,
    entries,
    commit: log.commit,
    round: core.round,
    allowedBoot: peer.allowedBoot,
    restored: peer.restored,
  });
  let bytes = 0;
  for (const entry of entries) bytes += entryBytes(entry);
  if (peer.state === 'probe') {
    peer.probeSent = true;
    peer.probed = true;
    peer.probedBytes = Math.max(peer.probedBytes, bytes);
  } else if (entries.length > 0) {
    peer.sent(prevIndex + entries.length, bytes, core.ticksSinceBoot);
    peer.sentCommit = Math.max(peer.sentCommit, Math.min(log.commit, prevIndex + entries.length));
  }
  return true;
}

/** §5: the log no longer has what the peer needs. Sent only to a reachable peer, as a snapshot is a long transfer. */
function sendSnapshot(core: Core, peer: Progress): void {
  if (!peer.recentlyActive) {
    peer.probeSent = true;
    return;
  }
  peer.becomeSnapshot();
  core.sendSnapshot(peer);
}
