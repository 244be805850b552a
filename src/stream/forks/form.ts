/**
 * Builds a fork: inherited bytes arrive in pieces, then it becomes an ordinary stream. Its first piece, which may be
 * empty, says where it begins: at the start offset of its source, with the same offsets and ordinals.
 */
import { type Command, FLAG_CLOSE, FLAG_PRODUCER, FLAG_RECORDS } from '../../protocol/command.ts';
import { type ForkData, decodeForkData } from '../../protocol/fork-command.ts';
import { REPLY_CREATED, type Reply } from '../../protocol/reply.ts';
import { acceptProducer, appendPayload, meter, refuse, wholePayload } from '../operations/append.ts';
import { exceedsRetained } from '../core/buckets.ts';
import { admitFirst, describe, listDeadline } from '../operations/create.ts';
import type { Head } from '../core/head.ts';
import { expiryKey } from '../core/keys.ts';
import type { State } from '../core/state.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/** The command's fork, complete or not. */
export function forkOf(state: State, command: Command): Head | undefined {
  const head = state.findAny(command.bytes, command.keyAt, command.keyBytes);
  if (head?.forked !== true) return undefined;
  return state.forks.origin(head.incarnation).token === command.forkToken ? head : undefined;
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
