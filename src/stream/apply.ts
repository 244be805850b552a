/**
 * The replicated state machine: apply(state, command) -> reply. Total and deterministic: every command has an answer,
 * nothing throws for what a client sent, no clock is read (commands carry the leader's milliseconds).
 */
import { unreachable } from '../base/assert.ts';
import {
  COMMAND_APPEND,
  COMMAND_APPEND_BATCH,
  COMMAND_COMPACT,
  COMMAND_CREATE,
  COMMAND_DELETE,
  COMMAND_DELETE_BUCKET,
  COMMAND_DOOM,
  COMMAND_FLUSH,
  COMMAND_FORK_ABORT,
  COMMAND_FORK_BEGIN,
  COMMAND_FORK_CHECK,
  COMMAND_FORK_DATA,
  COMMAND_FORK_END,
  COMMAND_FORK_PIN,
  COMMAND_FORK_UNPIN,
  COMMAND_FORK_UNPINNED,
  COMMAND_GC_DONE,
  COMMAND_IMPORT_ABORT,
  COMMAND_IMPORT_BEGIN,
  COMMAND_IMPORT_END,
  COMMAND_IMPORT_ROWS,
  COMMAND_PUBLISH_SNAPSHOT,
  COMMAND_PURGE,
  COMMAND_QUOTA,
  COMMAND_RETENTION,
  COMMAND_SET_ATTRIBUTES,
  COMMAND_SWEEP,
  COMMAND_TOUCH,
  type Command,
} from '../protocol/command.ts';
import { RELEASE_CHUNKS_AT_ONCE, RELEASE_CHUNKS_PER_SWEEP } from '../base/limits.ts';
import type { Reply } from '../protocol/reply.ts';
import { applyAppend, isAllowed, refuse, refuseAbsent, refuseWrite } from './append.ts';
import { applyBatch } from './batch.ts';
import { applyCompact } from '../cold/state/compact.ts';
import { applyDoom, applyFlush, applyGcDone } from '../cold/state/flush.ts';
import { releaseDue, sweepReleases } from '../cold/state/release.ts';
import { applyCreate, commandAttributes, listDeadline } from './create.ts';
import { applyForkBegin } from '../forks/state/begin.ts';
import { applyForkData, applyForkEnd } from '../forks/state/form.ts';
import { applyForkPin } from '../forks/state/pin.ts';
import { applyForkAbort, applyForkCheck, applyForkUnpin, applyForkUnpinned, showUnpin } from '../forks/state/unpin.ts';
import {
  applyImportAbort,
  applyImportBegin,
  applyImportEnd,
  applyImportRows,
  isImporting,
} from '../backup/state/import.ts';
import { expiryKey, readUint } from './keys.ts';
import { applyPublish, applyRetention } from './publish.ts';
import { applyPurge } from './purge.ts';
import { applyQuota } from './quota.ts';
import { removeStream } from './remove.ts';
import type { State } from './state.ts';

/** Expiry-index entries handled by one sweep command; bounds the time of one apply. */
export const SWEEP_MAX = 256;

export function apply(state: State, command: Command, reply: Reply): void {
  state.releaseLeft = RELEASE_CHUNKS_AT_ONCE;
  if (command.kind >= COMMAND_IMPORT_BEGIN && command.kind <= COMMAND_IMPORT_ABORT) applyImport(state, command, reply);
  else if (isImporting(state)) refuse(reply, 'GROUP_IMPORTING');
  else applyServed(state, command, reply);
  state.mutations++;
}

function applyImport(state: State, command: Command, reply: Reply): void {
  switch (command.kind) {
    case COMMAND_IMPORT_BEGIN:
      return applyImportBegin(state, command, reply);
    case COMMAND_IMPORT_ROWS:
      return applyImportRows(state, command, reply);
    case COMMAND_IMPORT_END:
      return applyImportEnd(state, command, reply);
    case COMMAND_IMPORT_ABORT:
      return applyImportAbort(state, command, reply);
    default:
      return unreachable(command.kind as never);
  }
}

/** Everything but an import, and not while there is one. */
function applyServed(state: State, command: Command, reply: Reply): void {
  switch (command.kind) {
    case COMMAND_APPEND:
      return applyAppend(state, command, reply);
    case COMMAND_APPEND_BATCH:
      return applyBatch(state, command, reply);
    case COMMAND_CREATE:
      return applyCreate(state, command, reply);
    case COMMAND_DELETE:
      return applyDelete(state, command, reply);
    case COMMAND_SET_ATTRIBUTES:
      return applySetAttributes(state, command, reply);
    case COMMAND_TOUCH:
      return applyTouch(state, command);
    case COMMAND_SWEEP:
      return applySweep(state, command);
    case COMMAND_DELETE_BUCKET:
      return applyDeleteBucket(state, command, reply);
    case COMMAND_PURGE:
      return applyPurge(state, command, reply);
    case COMMAND_QUOTA:
      return applyQuota(state, command, reply);
    case COMMAND_FLUSH:
      return applyFlush(state, command, reply);
    case COMMAND_COMPACT:
      return applyCompact(state, command, reply);
    case COMMAND_GC_DONE:
      return applyGcDone(state, command);
    case COMMAND_DOOM:
      return applyDoom(state, command);
    case COMMAND_PUBLISH_SNAPSHOT:
      return applyPublish(state, command, reply);
    case COMMAND_RETENTION:
      return applyRetention(state, command, reply);
    default:
      return applyFork(state, command, reply);
  }
}

function applyFork(state: State, command: Command, reply: Reply): void {
  switch (command.kind) {
    case COMMAND_FORK_BEGIN:
      return applyForkBegin(state, command, reply);
    case COMMAND_FORK_PIN:
      return applyForkPin(state, command, reply);
    case COMMAND_FORK_DATA:
      return applyForkData(state, command, reply);
    case COMMAND_FORK_END:
      return applyForkEnd(state, command, reply);
    case COMMAND_FORK_ABORT:
      return applyForkAbort(state, command, reply);
    case COMMAND_FORK_UNPIN:
      return applyForkUnpin(state, command, reply);
    case COMMAND_FORK_UNPINNED:
      return applyForkUnpinned(state, command);
    case COMMAND_FORK_CHECK:
      return applyForkCheck(state, command, reply);
    default:
      return unreachable(command.kind as never);
  }
}

/** An expired stream that is not yet swept is removed too, but the client is told what everyone sees: it is not there. */
function applyDelete(state: State, command: Command, reply: Reply): void {
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  if (head === undefined) return refuseAbsent(state, head, command, reply);
  const expired = head.expired(command.nowMs);
  if (!expired && !isAllowed(head, command)) return refuseWrite(reply, 'PRECONDITION_FAILED', head, command);
  showUnpin(removeStream(state, head, command.nowMs), reply);
  return expired ? refuseAbsent(state, head, command, reply) : undefined;
}

function applySetAttributes(state: State, command: Command, reply: Reply): void {
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  if (head === undefined || head.expired(command.nowMs)) return refuseAbsent(state, head, command, reply);
  state.setAttributes(head, commandAttributes(command));
}

function applyTouch(state: State, command: Command): void {
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  if (head === undefined || head.ttlSeconds < 0 || head.expired(command.nowMs)) return;
  head.touchedAtMs = Math.max(head.touchedAtMs, command.nowMs);
  state.touch(head, 0);
}

/**
 * Removes streams whose deadline has passed, and gives back what earlier removals left in the cold store. The index holds
 * a lower bound of each deadline, so that renewing a lifetime costs nothing; a stream found alive here is listed again at
 * its real deadline.
 */
function applySweep(state: State, command: Command): void {
  const due: { key: Uint8Array; deadlineMs: number; incarnation: number }[] = [];
  const start = expiryKey(state.prefix, 0, 0);
  const end = expiryKey(state.prefix, command.nowMs + 1, 0);
  state.overlay.range(start, end, false, (index, key) => {
    due.push({ key: key.slice(), deadlineMs: readUint(index, 3, 8), incarnation: readUint(index, 11, 6) });
    return due.length < SWEEP_MAX;
  });
  for (const { key, deadlineMs, incarnation } of due) {
    state.overlay.delete(expiryKey(state.prefix, deadlineMs, incarnation));
    const head = state.findAny(key, 0, key.length);
    if (head === undefined || head.incarnation !== incarnation) continue;
    if (head.expired(command.nowMs)) removeStream(state, head, command.nowMs);
    else listDeadline(state, head);
  }
  sweepReleases(state, command.nowMs, RELEASE_CHUNKS_PER_SWEEP);
}

/** True when a sweep at `nowMs` would find something; asked by the leader before it proposes one. */
export function sweepDue(state: State, nowMs: number): boolean {
  if (isImporting(state)) return false;
  if (releaseDue(state)) return true;
  let due = false;
  state.overlay.range(expiryKey(state.prefix, 0, 0), expiryKey(state.prefix, nowMs + 1, 0), false, () => {
    due = true;
    return false;
  });
  return due;
}

/** Removes an empty bucket; its usage counters stay. */
function applyDeleteBucket(state: State, command: Command, reply: Reply): void {
  const bucket = state.buckets.of(state.tx, command.bytes, command.keyAt, command.keyBytes);
  if (!bucket.exists) return refuse(reply, 'BUCKET_NOT_FOUND');
  if (bucket.streamCount > 0) return refuse(reply, 'BUCKET_NOT_EMPTY');
  bucket.exists = false;
  state.buckets.touch(bucket);
}
