/** Create: a new stream, or for an existing one whether its configuration is the same (200) or different (409). */
import type { ErrorCode } from '../../base/errors.ts';
import { planted } from '../../base/planted.ts';
import { type Command, FLAG_ATTRS, FLAG_CLOSE, FLAG_PRODUCER, FLAG_RECORDS, FLAG_SEQ } from '../../protocol/command.ts';
import {
  REPLY_CREATED,
  REPLY_PRODUCER,
  type Reply,
  explain,
  showProducer,
  showSeqConflict,
} from '../../protocol/reply.ts';
import {
  acceptProducer,
  appendPayload,
  checkSeq,
  isAllowed,
  meter,
  refuse,
  refuseWrite,
  showPosition,
  wholePayload,
} from './append.ts';
import { attributesEqual } from '../../json/attributes.ts';
import { type Bucket, exceedsRetained } from '../core/buckets.ts';
import { explainCreate } from './explain.ts';
import type { Head } from '../core/head.ts';
import { expiryKey } from '../core/keys.ts';
import { removeStream } from './remove.ts';
import type { State } from '../core/state.ts';

export function applyCreate(state: State, command: Command, reply: Reply): void {
  const existing = state.findAny(command.bytes, command.keyAt, command.keyBytes);
  const expired = existing !== undefined && existing.expired(command.nowMs);
  if (!admitFirst(command, expired ? undefined : existing, reply)) return undefined;
  const known = expired ? undefined : existing;
  if (!isAllowed(known, command)) {
    if (known === undefined) return refuse(reply, 'PRECONDITION_FAILED');
    return refuseWrite(reply, 'PRECONDITION_FAILED', known, command);
  }
  if (existing !== undefined && !expired) return describeExisting(state, existing, command, reply);
  if (existing !== undefined) removeStream(state, existing, command.nowMs);
  if (isHeld(state, command)) return refuse(reply, 'NAME_HELD');

  const key = command.bytes.slice(command.keyAt, command.keyAt + command.keyBytes);
  const bucket = state.buckets.of(state.tx, key, 0, key.indexOf(0));
  if (exceedsQuota(bucket, command.payloadBytes)) return refuse(reply, 'QUOTA_EXCEEDED');
  const head = state.create(key, command.nowMs);
  configure(state, head, command);
  bucket.exists = true;
  bucket.streamCount++;
  const size = command.payloadBytes;
  const records = command.has(FLAG_RECORDS) ? command.recordCount : 0;
  if (size > 0) appendPayload(state, head, command, wholePayload(size, records));
  if (command.has(FLAG_PRODUCER)) acceptProducer(state, head, undefined, command.producerId(), command, 0);
  state.touch(head, size);
  meter(state, bucket, size, head.recordNext);
  reply.flags |= REPLY_CREATED;
  describe(head, reply);
  reply.recordStart = 0;
  state.listener?.changed(head, 0);
  return undefined;
}

/** Whether a stream of this name was removed while it has live forks. */
export function isHeld(state: State, { bytes, keyAt, keyBytes }: Command): boolean {
  return state.forks.tombstone(bytes, keyAt, keyBytes) !== undefined;
}

/** A create counts as sequence 0 of its epoch, even when the stream exists. Returns false when it was refused. */
export function admitFirst(command: Command, existing: Head | undefined, reply: Reply): boolean {
  if (!command.has(FLAG_PRODUCER)) return true;
  reply.flags |= REPLY_PRODUCER;
  showProducer(reply, command.producerEpoch, command.producerSeq);
  if (command.producerSeq === 0) return true;
  refuse(reply, 'PRODUCER_SEQ_CONFLICT', existing);
  showSeqConflict(reply, 0, command.producerSeq);
  explain(reply, `received ${command.producerSeq}, expected 0`);
  return false;
}

export function exceedsQuota(bucket: Bucket, size: number): boolean {
  const excess = planted('quota-of-streams-forgotten') ? 1 : 0;
  return (bucket.streamsMax >= 0 && bucket.streamCount >= bucket.streamsMax + excess) || exceedsRetained(bucket, size);
}

function configure(state: State, head: Head, command: Command): void {
  let type = command.contentType();
  // Bytes without a type are octet-stream permanently; only an empty stream may still get its type from an append.
  if (type === '' && command.payloadBytes > 0) type = 'application/octet-stream';
  head.setContentType(state.intern(type));
  head.closed = command.has(FLAG_CLOSE);
  head.ttlSeconds = command.ttlSeconds;
  head.expiresAtMs = command.expiresAtMs;
  if (command.has(FLAG_SEQ)) head.lastSeq = command.streamSeq();
  const attributes = commandAttributes(command);
  if (attributes !== undefined) state.setAttributes(head, attributes);
  if (head.deadlineMs !== Infinity) listDeadline(state, head);
}

/** Adds the stream to the expiry index at its current deadline. */
export function listDeadline(state: State, head: Head): void {
  head.indexedDeadlineMs = head.deadlineMs;
  state.overlay.put(expiryKey(state.prefix, head.deadlineMs, head.incarnation), head.key);
  state.touch(head, 0);
}

function describeExisting(state: State, head: Head, command: Command, reply: Reply): void {
  if (head.provisional) return refuse(reply, 'FORK_FORMING');
  const code = head.forked ? 'CREATE_CONFLICT' : compareConfiguration(state, head, command);
  if (code === 'CREATE_CONFLICT') {
    refuse(reply, code, head);
    explain(reply, head.forked ? 'it is a fork' : explainCreate(head, command, sameAttributes(state, head, command)));
    return undefined;
  }
  if (code !== 'OK') return refuseWrite(reply, code, head, command);
  return describe(head, reply);
}

function compareConfiguration(state: State, head: Head, command: Command): ErrorCode {
  if (
    !head.matchesType(command.contentType()) ||
    command.has(FLAG_CLOSE) !== head.closed ||
    command.ttlSeconds !== head.ttlSeconds ||
    command.expiresAtMs !== head.expiresAtMs ||
    !sameAttributes(state, head, command)
  ) {
    return 'CREATE_CONFLICT';
  }
  return checkSeq(head, command);
}

export function sameAttributes(state: State, head: Head, command: Command): boolean {
  return attributesEqual(commandAttributes(command), state.attributes(head));
}

/** Normalised attributes of a command; undefined for none and for `{}`, which are equivalent. */
export function commandAttributes(command: Command): Uint8Array | undefined {
  if (!command.has(FLAG_ATTRS) || command.attributesBytes <= 2) return undefined;
  return command.bytes.slice(command.attributesAt, command.attributesAt + command.attributesBytes);
}

export function describe(head: Head, reply: Reply): void {
  reply.contentType = head.shownContentType;
  showPosition(head, reply);
}
