/**
 * The replicated state machine: apply(state, command) -> reply. It is total and deterministic: every command has an
 * answer, client input never throws, and no clock is read (commands carry the leader's milliseconds): invariant 6.
 */
import { assert } from '../base/assert.ts';
import { viewOf } from '../base/bytes.ts';
import type { Command } from '../protocol/command.ts';
import { RELEASE_CHUNKS_AT_ONCE, RELEASE_CHUNKS_PER_EXPIRE } from '../base/limits.ts';
import { decodePiece } from '../protocol/piece.ts';
import type { Reply } from '../protocol/reply.ts';
import { applyAppend, isAllowed, refuse, refuseAbsent, refuseWrite } from './operations/append.ts';
import { applyBatch } from './operations/batch.ts';
import { applyCompact, applyMarkOrphan, applyFlush, applyGcDone } from './cold/commands.ts';
import { releaseDue, continueReleases } from './cold/release.ts';
import { applyCreate, commandAttributes, listDeadline } from './operations/create.ts';
import { applyForkBegin, applyForkData, applyForkEnd } from './forks/form.ts';
import {
  applyForkAbort,
  applyForkCheck,
  applyForkPin,
  applyForkUnpin,
  applyForkUnpinned,
  showUnpin,
} from './forks/pin.ts';
import {
  applyImportAbort,
  applyImportBegin,
  applyImportEnd,
  applyImportRows,
  isClosedTo,
  isImporting,
} from './backup/apply-import.ts';
import { TAG, expiryKey, firstTime, taggedKey, timeOf, timedIncarnationOf } from './core/keys.ts';
import { applyPublish, applyRetention } from './operations/publish.ts';
import { applyPurge } from './operations/purge.ts';
import { applyQuota } from './operations/quota.ts';
import { removeStream } from './operations/remove.ts';
import type { State } from './core/state.ts';
import { COMMANDS, type CommandName, byNumber } from '../protocol/operations.ts';

/** Expiry-index entries handled by one expire command; bounds the time of one apply. */
export const EXPIRE_MAX = 256;

type Apply = (state: State, command: Command, reply: Reply) => void;

const APPLY = byNumber<Apply>({
  append: applyAppend,
  appendBatch: applyBatch,
  create: applyCreate,
  deleteStream: applyDelete,
  setAttributes: applySetAttributes,
  touch: applyTouch,
  expire: applyExpire,
  deleteBucket: applyDeleteBucket,
  publishSnapshot: applyPublish,
  retention: applyRetention,
  purge: applyPurge,
  quota: applyQuota,
  flush: applyFlush,
  compact: applyCompact,
  gcDone: applyGcDone,
  markOrphan: applyMarkOrphan,
  importBegin: applyImportBegin,
  importRows: applyImportRows,
  importEnd: applyImportEnd,
  importAbort: applyImportAbort,
  forkBegin: applyForkBegin,
  forkPin: applyForkPin,
  forkData: applyForkData,
  forkEnd: applyForkEnd,
  forkAbort: applyForkAbort,
  forkUnpin: applyForkUnpin,
  forkUnpinned: applyForkUnpinned,
  forkCheck: applyForkCheck,
  piece: applyPiece,
} satisfies Record<CommandName, Apply>);

const APPEND = COMMANDS.append.number;

export function apply(state: State, command: Command, reply: Reply): void {
  state.releaseLeft = RELEASE_CHUNKS_AT_ONCE;
  const isClosed = isClosedTo(state, command.kind);
  if (isClosed) state.partial.drop();
  if (isClosed) refuse(reply, 'GROUP_IMPORTING');
  else if (command.kind === APPEND) applyAppend(state, command, reply);
  else applyAny(state, command, reply);
  state.appliedCommands++;
}

/** Stops the node at an unknown command: a later version wrote it. */
function applyAny(state: State, command: Command, reply: Reply): void {
  const handler = APPLY[command.kind];
  assert(handler !== undefined, `command kind ${command.kind} is known to this version`);
  handler(state, command, reply);
}

/** The last piece executes the command, at the time of that piece; `command` is the whole one afterwards. */
function applyPiece(state: State, command: Command, reply: Reply): void {
  const whole = state.partial.take(decodePiece(command.payload()), state.appliedTerm);
  if (whole === undefined) return undefined;
  // Only an import comes between the pieces of a command.
  if (whole === 'gap') return refuse(reply, 'GROUP_IMPORTING');
  const { nowMs } = command;
  command.read(whole, viewOf(whole), 0);
  command.stampNow(nowMs);
  return applyAny(state, command, reply);
}

/**
 * Also removes an expired stream that no expire command has reached, but answers that
 * it does not exist, as every other route does.
 */
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
 * Removes streams whose deadline has passed, and releases cold chunks of streams removed earlier. The index holds a
 * lower bound of each deadline, so that renewing a lifetime costs nothing; a stream found alive here is listed again at
 * its real deadline.
 */
function applyExpire(state: State, command: Command, reply: Reply): void {
  const due: { key: Uint8Array; deadlineMs: number; incarnation: number }[] = [];
  const start = expiryKey(state.prefix, 0, 0);
  const end = expiryKey(state.prefix, command.nowMs + 1, 0);
  state.overlay.range(start, end, false, (index, key) => {
    due.push({ key: key.slice(), deadlineMs: timeOf(index), incarnation: timedIncarnationOf(index) });
    return due.length < EXPIRE_MAX;
  });
  for (const { key, deadlineMs, incarnation } of due) {
    state.overlay.delete(expiryKey(state.prefix, deadlineMs, incarnation));
    const head = state.findAny(key, 0, key.length);
    if (head === undefined || head.incarnation !== incarnation) continue;
    if (head.expired(command.nowMs)) removeStream(state, head, command.nowMs);
    else listDeadline(state, head);
  }
  continueReleases(state, command.nowMs, RELEASE_CHUNKS_PER_EXPIRE);
  COMMANDS.expire.result.write(reply, { isFull: due.length === EXPIRE_MAX });
}

/** From when on an expire command finds something: 0, as long as rows wait for their release; Infinity, if none will expire. */
export function nextExpiryMs(state: State): number {
  if (isImporting(state)) return Infinity;
  if (releaseDue(state)) return 0;
  return firstTime(state.overlay, taggedKey(state.prefix, TAG.expiry)) ?? Infinity;
}

/** Removes an empty bucket; its usage counters stay. */
function applyDeleteBucket(state: State, command: Command, reply: Reply): void {
  const bucket = state.buckets.of(state.tx, command.bytes, command.keyAt, command.keyBytes);
  if (!bucket.exists) return refuse(reply, 'BUCKET_NOT_FOUND');
  if (bucket.streamCount > 0) return refuse(reply, 'BUCKET_NOT_EMPTY');
  bucket.exists = false;
  state.buckets.touch(bucket);
}
