import { assert } from '../base/assert.ts';
import { advanceCommit } from './commit.ts';
import { entryBytes } from './log.ts';
import { sendHeartbeat } from './heartbeat.ts';
import { confirmReads } from './read-index.ts';
import { admitAnswer, endRecoveries, onRegression } from './recovery.ts';
import { finishTransfer } from './transfer.ts';
import type { Core } from './core.ts';
import type { Progress } from './progress.ts';
import type { AppendResponse, HeartbeatResponse } from './types.ts';

/** Entries that a repeated probe may carry: not more than the messages around them take. */
const REPEAT_BYTES_MAX = 512;

/** Leader, once per `take`: what the peers need, in as few messages as the byte limits allow (§10.2). */
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
  core.wantReplicate = true;
  if (peer.state === 'replicate' && peer.match < peer.next - 1) {
    // Appends are out and none was answered for a whole heartbeat: one may be lost. An empty append at the end of
    // what was sent makes the peer either acknowledge or refuse.
    if (peer.heartbeatMatch === peer.match) sendAppend(core, peer, 0);
    peer.heartbeatMatch = peer.match;
  }
  afterAnswer(core);
}

/** The host could not deliver the snapshot; the peer is asked again where it stands. */
export function snapshotFailed(core: Core, node: number): void {
  const peer = core.peer(node);
  if (peer === undefined || peer.state !== 'snapshot') return;
  peer.becomeProbe(peer.match + 1);
  // Not at once: the next answer to a heartbeat shows that the peer is there.
  peer.probeSent = true;
}

/**
 * The host learnt that the peer has the snapshot up to `index`. Usually the peer has said so itself before; that answer
 * may have been lost, and while it is thought to be missing a snapshot the peer is sent nothing else.
 */
export function snapshotInstalled(core: Core, node: number, index: number): void {
  const peer = core.peer(node);
  if (peer === undefined || peer.state !== 'snapshot') return;
  peer.becomeProbe(index + 1);
  peer.probeSent = true;
}

function leaderPeer(core: Core, message: AppendResponse | HeartbeatResponse): Progress | undefined {
  if (core.role !== 'leader') return undefined;
  const peer = core.peer(message.from);
  if (peer === undefined || !admitAnswer(core, peer, message)) return undefined;
  peer.recentlyActive = true;
  peer.refusesLead = message.refusesLead;
  if (message.round > peer.ackedRound) peer.ackedRound = message.round;
  return peer;
}

/** An answer may confirm reads and recoveries besides what it says about the log. */
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
    // Resume as soon as the log continues from where the peer is; else the log was purged meanwhile: another one.
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
    // Acknowledged means on disk, so this is an old answer, or a new one by a peer that lost what it had.
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
  // No entries to a peer that waits for permission: it would look as if it were being filled.
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

/** The append that was sent before may be on its way still: if each heartbeat repeated it, that would fill a thin link. */
function repeatBytes({ log }: Core, { next }: Progress): number {
  const [first] = next > log.snapshotIndex ? log.entriesFrom(next, 1) : [];
  return first === undefined || entryBytes(first) > REPEAT_BYTES_MAX ? 0 : REPEAT_BYTES_MAX;
}

function messageBytes(core: Core, peer: Progress): number {
  return Math.min(core.config.maxMessageBytes, peer.room);
}

/** One append from peer.next on; maxBytes 0 sends none of the entries. False when it became a snapshot. */
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

/** §5: the log no longer has what the peer needs. Only to a peer that is there: a snapshot is a long transfer. */
function sendSnapshot(core: Core, peer: Progress): void {
  if (!peer.recentlyActive) {
    peer.probeSent = true;
    return;
  }
  const index = core.applied;
  const term = core.log.term(index);
  assert(term >= 0, `the log does not know the applied index ${index}`);
  peer.becomeSnapshot();
  core.round += 1;
  core.send.push({
    type: 'snapshot',
    from: core.id,
    to: peer.node,
    term: core.term,
    snapshot: { index, term, configuration: core.configurationAt(index) },
    round: core.round,
    allowedBoot: peer.allowedBoot,
    restored: peer.restored,
  });
}
