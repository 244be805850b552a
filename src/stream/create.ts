/** Create: a new stream, or the answer that an existing one has the same configuration (200) or another one (409). */
import type { ErrorCode } from '../base/errors.ts';
import { type Command, FLAG_ATTRS, FLAG_CLOSE, FLAG_PRODUCER, FLAG_RECORDS, FLAG_SEQ } from '../wire/command.ts';
import { sameContentType } from '../wire/media-type.ts';
import { REPLY_CLOSED, REPLY_CREATED, REPLY_PRODUCER, REPLY_RECORDS, type Reply } from '../wire/reply.ts';
import { acceptProducer, appendPayload, meter, refuse } from './append.ts';
import { type Bucket, exceedsRetained } from './buckets.ts';
import { unlistHot } from './cold/hot.ts';
import { releaseChunks } from './cold/release.ts';
import { type Head, internType } from './head.ts';
import { expiryKey } from './keys.ts';
import type { State } from './state.ts';

export function applyCreate(state: State, command: Command, reply: Reply): void {
  const existing = state.find(command.bytes, command.keyAt, command.keyBytes);
  const expired = existing !== undefined && existing.expired(command.nowMs);
  if (command.has(FLAG_PRODUCER)) {
    reply.flags |= REPLY_PRODUCER;
    reply.a = command.producerEpoch;
    reply.b = command.producerSeq;
    // A create counts as sequence 0 of its epoch, also when the stream exists (wire-facts 2.5).
    if (command.producerSeq !== 0) {
      refuse(reply, 'PRODUCER_SEQ_CONFLICT', expired ? undefined : existing);
      reply.b = 0;
      reply.c = command.producerSeq;
      return;
    }
  }
  if (existing !== undefined && !expired) return describeExisting(state, existing, command, reply);
  if (existing !== undefined) removeStream(state, existing, command.nowMs);

  const key = command.bytes.slice(command.keyAt, command.keyAt + command.keyBytes);
  const bucket = state.buckets.of(state.tx, key, 0, key.indexOf(0));
  if (exceedsQuota(bucket, command.payloadBytes)) return refuse(reply, 'QUOTA_EXCEEDED');
  const head = state.create(key, command.nowMs);
  configure(state, head, command);
  bucket.exists = true;
  bucket.streamCount++;
  const size = command.payloadBytes;
  const records = command.has(FLAG_RECORDS) ? command.recordCount : 0;
  if (size > 0) appendPayload(state, head, command, 0, size, 0, records);
  if (command.has(FLAG_PRODUCER)) acceptProducer(state, head, undefined, command.producerId(), command, 0);
  state.touch(head, size);
  meter(state, bucket, size, head.recordNext);
  reply.flags |= REPLY_CREATED;
  describe(head, reply);
  reply.recordStart = 0;
  state.listener?.changed(head, 0);
}

function exceedsQuota(bucket: Bucket, size: number): boolean {
  return (bucket.streamsMax >= 0 && bucket.streamCount >= bucket.streamsMax) || exceedsRetained(bucket, size);
}

function configure(state: State, head: Head, command: Command): void {
  let type = command.contentType();
  // Bytes without a type are octet-stream for good; only an empty stream may still get its type from an append.
  if (type === '' && command.payloadBytes > 0) type = 'application/octet-stream';
  head.setContentType(internType(type));
  head.closed = command.has(FLAG_CLOSE);
  head.ttlSeconds = command.ttlSeconds;
  head.expiresAtMs = command.expiresAtMs;
  if (command.has(FLAG_SEQ)) head.lastSeq = command.streamSeq();
  const attributes = commandAttributes(command);
  if (attributes !== undefined) state.setAttributes(head, attributes);
  if (head.deadlineMs !== Infinity) listDeadline(state, head);
}

/** Enters the stream into the expiry index at its present deadline. */
export function listDeadline(state: State, head: Head): void {
  head.indexedDeadlineMs = head.deadlineMs;
  state.overlay.put(expiryKey(state.prefix, head.deadlineMs, head.incarnation), head.key);
  state.touch(head, 0);
}

function describeExisting(state: State, head: Head, command: Command, reply: Reply): void {
  const code = compareConfiguration(state, head, command);
  if (code !== 'OK') return refuse(reply, code, head);
  describe(head, reply);
}

function compareConfiguration(state: State, head: Head, command: Command): ErrorCode {
  const type = command.contentType();
  const sameType =
    type === '' ? head.typeFromAppend || isDefaultType(head) : sameContentType(type, head.shownContentType);
  if (
    !sameType ||
    command.has(FLAG_CLOSE) !== head.closed ||
    command.ttlSeconds !== head.ttlSeconds ||
    command.expiresAtMs !== head.expiresAtMs ||
    !equal(commandAttributes(command), state.attributes(head))
  ) {
    return 'CREATE_CONFLICT';
  }
  if (command.has(FLAG_SEQ) && head.lastSeq !== undefined && !(command.streamSeq() > head.lastSeq)) {
    return 'STREAM_SEQ_CONFLICT';
  }
  return 'OK';
}

function isDefaultType(head: Head): boolean {
  return head.contentType === '' || head.contentType === 'application/octet-stream';
}

function equal(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/** Normalised attributes of a command; undefined when none or `{}`, which are the same. */
export function commandAttributes(command: Command): Uint8Array | undefined {
  if (!command.has(FLAG_ATTRS) || command.attributesBytes <= 2) return undefined;
  return command.bytes.slice(command.attributesAt, command.attributesAt + command.attributesBytes);
}

function describe(head: Head, reply: Reply): void {
  reply.contentType = head.shownContentType;
  reply.nextOffset = head.tail;
  if (head.closed) reply.flags |= REPLY_CLOSED;
  if (!head.json) return;
  reply.flags |= REPLY_RECORDS;
  reply.recordFirst = head.recordFirst;
  reply.recordStart = head.recordNext;
  reply.recordNext = head.recordNext;
}

/**
 * Removes a stream and adjusts its bucket's gauges. What it has in the cold store is given back, as far as the command may
 * (State.releaseLeft) at once. `immediate`: without the grace for reads that are under way.
 */
export function removeStream(state: State, head: Head, nowMs: number, immediate = false): void {
  const bucket = state.buckets.of(state.tx, head.key, 0, head.bucketBytes);
  bucket.streamCount--;
  bucket.retainedBytes -= head.tail - head.floor;
  state.buckets.touch(bucket);
  // Its place in the expiry index too: a deadline in the far future would keep the row until then.
  if (head.indexedDeadlineMs >= 0) {
    state.overlay.delete(expiryKey(state.prefix, head.indexedDeadlineMs, head.incarnation));
  }
  unlistHot(state, head);
  if (head.hotStart > 0) releaseChunks(state, head.incarnation, Infinity, nowMs, immediate);
  state.remove(head);
}
