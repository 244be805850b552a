import { assert } from '../base/assert.ts';
import { decodeConfiguration } from './configuration.ts';
import { writingTicks } from './clock.ts';
import { loseLog, noteRecovery } from './recovery.ts';
import { becomeFollower } from './roles.ts';
import { ENTRY_CONFIG } from './types.ts';
import type { Core } from './core.ts';
import type { AppendRequest, AppendResponse, Heartbeat, GroupSnapshotRequest } from './types.ts';

/** §3.5: accepts the entries if the log agrees at the previous one, otherwise says where to look. */
export function onAppend(core: Core, message: AppendRequest): void {
  follow(core, message);
  const { log } = core;
  const { prevIndex, entries } = message;
  if (entries.length > 0) core.writingTicks = writingTicks(entries.reduce((sum, { data }) => sum + data.length, 0));
  // A committed prefix is the leader's too (§3.6.3), even where it is already compacted here.
  if (prevIndex > log.commit && !log.matches(prevIndex, message.prevTerm)) {
    reject(core, message);
    return;
  }
  appendMissing(core, message);
  const lastNew = prevIndex + entries.length;
  log.commitTo(Math.max(log.commit, Math.min(message.commit, lastNew)));
  acknowledge(core, message, Math.max(lastNew, log.commit));
}

export function onHeartbeat(core: Core, message: Heartbeat): void {
  follow(core, message);
  const { log } = core;
  // The leader cut `commit` to what this log acknowledged, so a log that ends before it is an older copy.
  if (core.lost === 0 && message.commit > log.last) loseLog(core);
  // A lost log is not the one that the leader means.
  if (core.lost === 0 && message.commit > log.commit && message.commit <= log.last) log.commitTo(message.commit);
  if (message.round === 0) return;
  if (core.hasNewsForLeader && !core.isReplaced) return acknowledge(core, message, log.commit);
  core.send.push({ type: 'heartbeat-response', ...core.envelope(message.from), ...core.note(message.round) });
}

/** §5. The payload is complete at the host; `take` tells it to install. */
export function onSnapshot(core: Core, message: GroupSnapshotRequest): void {
  follow(core, message);
  install(core, message);
  acknowledge(core, message, core.log.commit);
}

/**
 * Its sender led in an earlier term. What it applied is committed, and so it is in every later one (§3.6.3). The leader
 * of this term, if there is one, waits to send its own: it is told of this one in the answer to its next heartbeat.
 */
export function installOld(core: Core, message: GroupSnapshotRequest): void {
  if (core.role === 'leader') return;
  if (core.role !== 'follower') becomeFollower(core, core.term, 0);
  install(core, message);
  core.hasNewsForLeader = true;
}

function install(core: Core, { snapshot }: GroupSnapshotRequest): void {
  const { log } = core;
  // Entries that are not on disk yet are not acknowledged either: such a log waits for the next snapshot.
  if (core.wantsState && log.matches(snapshot.index, snapshot.term)) {
    if (snapshot.index <= log.stable) core.replaceState(snapshot);
  } else if (snapshot.index > log.commit) {
    // The log reached this index on its own while the snapshot was in transit: keep what follows it.
    if (log.matches(snapshot.index, snapshot.term)) log.commitTo(snapshot.index);
    else core.restore(snapshot);
  }
}

function follow(core: Core, message: AppendRequest | Heartbeat | GroupSnapshotRequest): void {
  assert(core.role !== 'leader', `nodes ${core.id} and ${message.from} both lead term ${core.term}`);
  if (core.role !== 'follower') becomeFollower(core, core.term, message.from);
  assert(core.leader === 0 || core.leader === message.from, `two leaders in term ${core.term}`);
  core.leader = message.from;
  core.electionElapsed = 0;
  core.writingTicks = 0;
  noteRecovery(core, message);
}

/** Skips what is already there; a conflict cuts the log (§3.5). An old message must not cut: its entries all agree. */
function appendMissing(core: Core, message: AppendRequest): void {
  const { log } = core;
  for (const entry of message.entries) {
    if (entry.index <= log.commit) continue;
    if (entry.index <= log.last) {
      if (log.term(entry.index) === entry.term) continue;
      core.truncate(entry.index);
    }
    log.append(entry);
    if (entry.kind === ENTRY_CONFIG) core.adopt(entry.index, decodeConfiguration(entry.data));
  }
}

/** Sent when the disk has the entries (§3.8, invariant 4). The acknowledgements of one turn are merged. */
function acknowledge(core: Core, message: AppendRequest | Heartbeat | GroupSnapshotRequest, index: number): void {
  core.hasNewsForLeader = false;
  const response: AppendResponse = {
    type: 'append-response',
    from: core.id,
    to: message.from,
    term: core.term,
    reject: false,
    index,
    hintIndex: 0,
    hintTerm: 0,
    ...core.note(message.round),
  };
  const waiting = core.afterPersist;
  const before = waiting[waiting.length - 1];
  const supersedes =
    before !== undefined &&
    before.type === 'append-response' &&
    before.to === message.from &&
    before.term === core.term &&
    before.index <= index &&
    before.round <= message.round;
  if (supersedes) waiting[waiting.length - 1] = response;
  else waiting.push(response);
}

function reject(core: Core, message: AppendRequest): void {
  const { log } = core;
  // No entry above the hint can agree: the leader's terms up to prevIndex are at most prevTerm.
  const hintIndex = log.lastIndexNotAfterTerm(message.prevIndex, message.prevTerm);
  core.send.push({
    type: 'append-response',
    ...core.envelope(message.from),
    reject: true,
    index: message.prevIndex,
    hintIndex,
    hintTerm: log.term(hintIndex),
    ...core.note(message.round),
  });
}
