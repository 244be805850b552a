/**
 * Forms a fork. First a provisional stream takes its name, invisible to clients; the request is stored, so that a
 * repetition can be distinguished from another request. Inherited bytes arrive in pieces, then it becomes an ordinary
 * stream. Its first piece, which may be empty, says where it begins: at the start offset of its source, with the same
 * offsets and ordinals.
 */
import type { ErrorCode } from '../../base/errors.ts';
import { type Command, FLAG_CLOSE, FLAG_SEQ, FLAG_PRODUCER, FLAG_RECORDS } from '../../protocol/command.ts';
import {
  FORK_AT_TAIL,
  type ForkBegin,
  decodeForkBegin,
  type ForkData,
  decodeForkData,
} from '../../protocol/fork-command.ts';
import { sameContentType } from '../../protocol/media-type.ts';
import { REPLY_CREATED, type Reply } from '../../protocol/reply.ts';
import { refuse, acceptProducer, appendPayload, checkSeq, meter, wholePayload } from '../operations/append.ts';
import {
  admitFirst,
  commandAttributes,
  describe,
  exceedsQuota,
  isHeld,
  listDeadline,
  sameAttributes,
} from '../operations/create.ts';
import type { Head } from '../core/head.ts';
import { compareBytes } from '../../base/bytes.ts';
import { removeStream } from '../operations/remove.ts';
import type { State } from '../core/state.ts';
import { COMMANDS } from '../../protocol/operations.ts';
import { exceedsRetained } from '../core/buckets.ts';
import { expiryKey } from '../core/keys.ts';

/** The command's fork, complete or not. */
export function forkOf(state: State, command: Command): Head | undefined {
  const head = state.findAny(command.bytes, command.keyAt, command.keyBytes);
  if (head?.forked !== true) return undefined;
  return state.forks.origin(head.incarnation).token === command.forkToken ? head : undefined;
}

/** With REPLY_CREATED the fork must be created; without, it exists already. */
export function applyForkBegin(state: State, command: Command, reply: Reply): void {
  const begin = decodeForkBegin(command.payload());
  if (begin === undefined || command.forkToken <= 0) return refuse(reply, 'INTERNAL');
  const existing = state.findAny(command.bytes, command.keyAt, command.keyBytes);
  const expired = existing !== undefined && existing.expired(command.nowMs);
  const isWhole = existing !== undefined && !expired && !existing.provisional;
  if (!admitFirst(command, isWhole ? existing : undefined, reply)) return undefined;
  if (existing?.provisional === true && state.forks.origin(existing.incarnation).token === command.forkToken) {
    // A repetition: its first answer was lost.
    reply.flags |= REPLY_CREATED;
    return undefined;
  }
  if (existing?.provisional === true && !expired) return refuse(reply, 'FORK_FORMING');
  if (existing !== undefined && !expired) return describeWhole(state, existing, command, begin, reply);
  // Expired, or a fork whose creator fell silent.
  if (existing !== undefined) removeStream(state, existing, command.nowMs);
  if (isHeld(state, command)) return refuse(reply, 'NAME_HELD');
  return reserve(state, command, begin, reply);
}

function reserve(state: State, command: Command, { source, subOffset }: ForkBegin, reply: Reply): void {
  const key = command.bytes.slice(command.keyAt, command.keyAt + command.keyBytes);
  const bucket = state.buckets.of(state.tx, key, 0, key.indexOf(0));
  if (exceedsQuota(bucket, 0)) return refuse(reply, 'QUOTA_EXCEEDED');
  bucket.streamCount++;
  state.buckets.touch(bucket);
  const head = state.create(key, command.nowMs);
  head.forked = true;
  head.provisional = true;
  if (command.has(FLAG_SEQ)) head.lastSeq = command.streamSeq();
  const attributes = commandAttributes(command);
  if (attributes !== undefined) state.setAttributes(head, attributes);
  const { forkToken: token, ttlSeconds, expiresAtMs } = command;
  state.forks.putOrigin(head.incarnation, { token, source, anchor: -1, subOffset, ttlSeconds, expiresAtMs });
  listDeadline(state, head);
  reply.flags |= REPLY_CREATED;
  return undefined;
}

function describeWhole(state: State, head: Head, command: Command, begin: ForkBegin, reply: Reply): void {
  const code = compare(state, head, command, begin);
  if (code !== 'OK') return refuse(reply, code, head);
  describe(head, reply);
  COMMANDS.forkBegin.result.write(reply, head);
  return undefined;
}

/** An omitted type or offset means the same as in the first request. */
function compare(state: State, head: Head, command: Command, begin: ForkBegin): ErrorCode {
  if (!head.forked) return 'CREATE_CONFLICT';
  const type = command.contentType();
  const origin = state.forks.origin(head.incarnation);
  const same =
    (type === '' || sameContentType(type, head.shownContentType)) &&
    compareBytes(origin.source, begin.source) === 0 &&
    (begin.offset === FORK_AT_TAIL || begin.offset === origin.anchor) &&
    begin.subOffset === origin.subOffset &&
    command.has(FLAG_CLOSE) === head.closed &&
    command.ttlSeconds === origin.ttlSeconds &&
    command.expiresAtMs === origin.expiresAtMs &&
    sameAttributes(state, head, command);
  return same ? checkSeq(head, command) : 'CREATE_CONFLICT';
}

/** A piece that was already applied is a repetition: its first answer was lost. */
export function applyForkData(state: State, command: Command, reply: Reply): void {
  const data = decodeForkData(command.payload());
  if (data === undefined) return refuse(reply, 'INTERNAL');
  const head = forkOf(state, command);
  if (head?.provisional !== true) return refuse(reply, 'FORK_LOST');
  const bucket = state.buckets.of(state.tx, head.key, 0, head.bucketBytes);
  if (data.size > 0 && exceedsRetained(bucket, data.size)) return refuse(reply, 'QUOTA_EXCEEDED');
  place(state, head, command, data);
  head.touchedAtMs = Math.max(head.touchedAtMs, command.nowMs);
  state.touch(head, data.size);
  if (data.at < head.tail || data.size === 0) return undefined;
  if (data.at !== head.tail || data.record !== head.recordNext) return refuse(reply, 'FORK_LOST');
  const { bytes, view, payloadAt, nowMs } = command;
  const messages = { bytes, view, payloadAt: payloadAt + data.bytesAt, endsAt: payloadAt + data.endsAt, nowMs };
  appendPayload(state, head, messages, wholePayload(data.size, data.count));
  bucket.retainedBytes += data.size;
  state.hotBytes += data.size;
  state.buckets.touch(bucket);
  return undefined;
}

/** The fork begins where its first piece begins. */
function place(state: State, head: Head, command: Command, { anchor, at, record }: ForkData): void {
  const origin = state.forks.origin(head.incarnation);
  if (origin.anchor >= 0) return;
  state.forks.putOrigin(head.incarnation, { ...origin, anchor });
  head.setContentType(state.intern(command.contentType()));
  head.startOffset = at;
  head.hotStart = at;
  head.tailRowStart = at;
  head.tail = at;
  head.recordFirst = record;
  head.hotRecord = record;
  head.recordNext = record;
}

/** Everything inherited has arrived: its own first bytes follow, and the fork becomes visible. */
export function applyForkEnd(state: State, command: Command, reply: Reply): void {
  const head = forkOf(state, command);
  if (head === undefined || state.forks.origin(head.incarnation).anchor < 0) return refuse(reply, 'FORK_LOST');
  const size = command.payloadBytes;
  const bucket = state.buckets.of(state.tx, head.key, 0, head.bucketBytes);
  const recordStart = head.recordNext;
  admitFirst(command, undefined, reply);
  if (head.provisional) {
    if (exceedsRetained(bucket, size)) return refuse(reply, 'QUOTA_EXCEEDED');
    show(state, head, command);
    bucket.exists = true;
    const records = command.has(FLAG_RECORDS) ? command.recordCount : 0;
    if (size > 0) appendPayload(state, head, command, wholePayload(size, records));
    if (command.has(FLAG_PRODUCER)) {
      acceptProducer(state, head, undefined, command.producerId(), command, recordStart);
    }
    state.touch(head, size);
    meter(state, bucket, size, head.recordNext - recordStart);
    state.listener?.changed(head, head.tail - size);
  }
  reply.flags |= REPLY_CREATED;
  describe(head, reply);
  // The lifetime inherited from its source, or its own.
  COMMANDS.forkEnd.result.write(reply, head);
  reply.recordStart = recordStart;
  return undefined;
}

function show(state: State, head: Head, command: Command): void {
  if (head.indexedDeadlineMs >= 0) {
    state.overlay.delete(expiryKey(state.prefix, head.indexedDeadlineMs, head.incarnation));
    head.indexedDeadlineMs = -1;
  }
  head.provisional = false;
  head.closed = command.has(FLAG_CLOSE);
  head.createdAtMs = command.nowMs;
  head.touchedAtMs = command.nowMs;
  head.writtenAtMs = command.nowMs;
  head.ttlSeconds = command.ttlSeconds;
  head.expiresAtMs = command.expiresAtMs;
  // As in a create: bytes without a type are octet-stream permanently.
  if (head.contentType === '' && command.payloadBytes > 0) head.setContentType('application/octet-stream');
  if (head.deadlineMs !== Infinity) listDeadline(state, head);
}
