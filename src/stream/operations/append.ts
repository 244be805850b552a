/**
 * Append and close. Checks in order of precedence (the first failure wins): existence, expiry, producer decision,
 * record match, closed, content type, expected offset, Stream-Seq, quota. A producer's request that is neither new nor
 * a duplicate meets the closure first (protocol 5.2.1): no epoch or sequence would help it.
 */
import { type ErrorCode, errorNumber } from '../../base/errors.ts';
import { planted } from '../../base/planted.ts';
import { RowDamage } from '../../base/row-damage.ts';
import { type Command, FLAG_CLOSE, FLAG_MATCH, FLAG_PRODUCER, FLAG_RECORDS, FLAG_SEQ } from '../../protocol/command.ts';
import { conditionHolds, streamTag } from '../../protocol/condition.ts';
import { COMMANDS } from '../../protocol/operations.ts';
import { sameContentType } from '../../protocol/media-type.ts';
import {
  REPLY_CLOSED,
  REPLY_DUPLICATE,
  REPLY_PRODUCER,
  REPLY_RECORDS,
  type Reply,
  explain,
  producerEpoch,
  showProducer,
  showSeqConflict,
} from '../../protocol/reply.ts';
import { type Bucket, exceedsRetained, writeUnits } from '../core/buckets.ts';
import { listHot } from '../cold/hot.ts';
import { explainWrite } from './explain.ts';
import type { Head } from '../core/head.ts';
import { type ProducerState, accept, decide, expectedSeq, newProducer, receiptOf } from '../core/producers.ts';
import { ROW_PAYLOAD_BYTES_MAX, DataRow } from '../core/row.ts';
import type { State } from '../core/state.ts';

/**
 * Rows of so long a message are not copied out of its command, which they keep in memory until the next checkpoint.
 * Rows of a shorter message would keep much more than they hold.
 */
const IN_PLACE_BYTES_MIN = 64 * 1024;

/** Refuses with `code`; the reply carries the stream's position. */
export function refuse(reply: Reply, code: ErrorCode, head?: Head): void {
  reply.code = errorNumber(code);
  if (head !== undefined) showPosition(head, reply);
}

export function showPosition(head: Head, reply: Reply): void {
  reply.nextOffset = head.tail;
  if (head.closed) reply.flags |= REPLY_CLOSED;
  if (head.json) showRecords(head, reply, head.recordNext, head.recordNext);
}

/** Refuses a write; the reply says what was compared. */
export function refuseWrite(reply: Reply, code: ErrorCode, head: Head, command: Command): void {
  refuse(reply, code, head);
  explain(reply, explainWrite(code, head, command));
}

/** Refuses because no live stream has this name: `head` is undefined or expired. */
export function refuseAbsent(state: State, head: Head | undefined, where: KeyPart, reply: Reply): void {
  const { bytes, keyAt, keyBytes } = where;
  if (head === undefined) state.needAbsence(bytes, keyAt, keyBytes);
  const held = head === undefined ? state.forks.tombstone(bytes, keyAt, keyBytes) !== undefined : head.hasPins;
  refuse(reply, held ? 'STREAM_DELETED' : 'STREAM_NOT_FOUND');
}

/** The part of a command or query that names its stream. */
interface KeyPart {
  readonly bytes: Uint8Array;
  readonly keyAt: number;
  readonly keyBytes: number;
}

/** Payload of messages or records with their relative ends. A command has this shape. */
export interface Messages {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly payloadAt: number;
  readonly endsAt: number;
  readonly nowMs: number;
}

export function applyAppend(state: State, command: Command, reply: Reply): void {
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  if (head === undefined || head.expired(command.nowMs)) return refuseAbsent(state, head, command, reply);
  let producer: ProducerState | undefined;
  let producerId = '';
  const hasProducer = command.has(FLAG_PRODUCER);
  if (hasProducer) {
    producerId = command.producerId();
    producer = storedProducer(state, head, command, producerId);
    if (!admitProducer(head, producer, command, reply)) return;
  }
  const size = command.payloadBytes;
  const bucket = state.buckets.of(state.tx, head.key, 0, head.bucketBytes);
  const code = checkAppend(head, command);
  if (code !== 'OK') return refuseWrite(reply, code, head, command);
  // Checked last, so that a request that can never succeed is not told to wait for space.
  if (size > 0 && exceedsRetained(bucket, size)) return refuse(reply, 'QUOTA_EXCEEDED', head);

  if (size > 0 && head.contentType === '') {
    head.setContentType(state.intern(command.contentType()));
    head.typeFromAppend = true;
  }
  const from = head.tail;
  const recordStart = head.recordNext;
  const records = command.has(FLAG_RECORDS) ? command.recordCount : 0;
  if (size > 0) appendPayload(state, head, command, wholePayload(size, records));
  if (command.has(FLAG_CLOSE)) {
    head.closed = true;
    reply.flags |= REPLY_CLOSED;
  }
  if (command.has(FLAG_SEQ)) head.lastSeq = command.streamSeq();
  // A new leader's clock may be behind: the deadline must not move before the one that the expiry index lists.
  head.touchedAtMs = Math.max(head.touchedAtMs, command.nowMs);
  head.writtenAtMs = command.nowMs;
  if (hasProducer) acceptProducer(state, head, producer, producerId, command, recordStart);
  state.touch(head, size);
  meter(state, bucket, size, head.recordNext - recordStart);
  reply.startOffset = from;
  reply.nextOffset = head.tail;
  if (head.json) showRecords(head, reply, recordStart, head.recordNext);
  state.listener?.changed(head, from);
}

/** Whether the precondition of the write holds. */
export function isAllowed(head: Head | undefined, command: Command): boolean {
  return command.conditionBytes === 0 || conditionHolds(command.condition(), head && tagOf(head));
}

export function tagOf(head: Head): string {
  return streamTag(head.incarnation, head.createdAtMs, head.tail, head.closed);
}

/**
 * The code that the command would be refused with, ignoring its producer and the quota. `tail` is where the command
 * begins: frames of a batch move the stream's own.
 */
export function checkAppend(head: Head, command: Command, tail = head.tail): ErrorCode {
  const hasBody = command.payloadBytes > 0;
  if (!isAllowed(head, command)) return 'PRECONDITION_FAILED';
  if (command.has(FLAG_MATCH)) {
    const records = head.json || (head.contentType === '' && command.has(FLAG_RECORDS));
    if (!records) return 'RECORD_MATCH_WITHOUT_RECORDS';
    if (command.recordMatch !== head.recordNext) return 'RECORD_PRECONDITION_FAILED';
  }
  if (head.closed) return 'STREAM_CLOSED';
  if (hasBody && head.contentType !== '' && !sameType(head, command)) return 'CONTENT_TYPE_MISMATCH';
  if (command.expectedOffset >= 0 && command.expectedOffset !== tail && !planted('expected-offset-ignored')) {
    return 'EXPECTED_OFFSET_CONFLICT';
  }
  return checkSeq(head, command);
}

export function checkSeq(head: Head, command: Command): ErrorCode {
  if (command.has(FLAG_SEQ) && head.lastSeq !== undefined && !(command.streamSeq() > head.lastSeq)) {
    return 'SEQ_CONFLICT';
  }
  return 'OK';
}

/** Compares in place first, because the same few types come with every append. */
function sameType(head: Head, command: Command): boolean {
  const type = head.contentType;
  if (type.length === command.contentTypeBytes) {
    let i = 0;
    while (i < type.length && type.charCodeAt(i) === command.bytes[command.contentTypeAt + i]) i++;
    if (i === type.length) return true;
  }
  return sameContentType(type, command.contentType());
}

/** Returns false when the request ends here, as a duplicate or a refusal; the reply is then filled in. */
export function admitProducer(
  head: Head,
  producer: ProducerState | undefined,
  command: Command,
  reply: Reply,
): boolean {
  const epoch = command.producerEpoch;
  const seq = command.producerSeq;
  const decision = decide(producer, epoch, seq);
  reply.flags |= REPLY_PRODUCER;
  showProducer(reply, epoch, seq);
  if (decision === 'accept') return true;
  if (decision === 'duplicate') {
    showDuplicate(head, producer as ProducerState, seq, reply);
    return false;
  }
  if (head.closed) {
    refuse(reply, 'STREAM_CLOSED', head);
    return false;
  }
  if (decision === 'stale-epoch') {
    refuse(reply, 'PRODUCER_EPOCH_STALE', head);
    const last = (producer as ProducerState).epoch;
    showProducer(reply, last, seq);
    explain(reply, `received ${epoch}, the last accepted is ${last}`);
  } else if (decision === 'epoch-start') {
    refuse(reply, 'PRODUCER_EPOCH_START', head);
    explain(reply, `epoch ${epoch} began with ${seq}`);
  } else {
    refuse(reply, 'PRODUCER_SEQ_CONFLICT', head);
    const expected = expectedSeq(producer, epoch);
    showSeqConflict(reply, expected, seq);
    explain(reply, `received ${seq}, expected ${expected}`);
  }
  return false;
}

/** Repeats the original answer, or answers with the current tail when the receipt has left the window. */
function showDuplicate(head: Head, producer: ProducerState, seq: number, reply: Reply): void {
  const receipt = receiptOf(producer, seq);
  reply.flags |= REPLY_DUPLICATE;
  // The protocol wants the highest accepted sequence here, so that a client that lost its place can resume.
  showProducer(reply, producerEpoch(reply), producer.seq);
  reply.nextOffset = receipt?.nextOffset ?? head.tail;
  if (receipt?.closed ?? head.closed) reply.flags |= REPLY_CLOSED;
  if (head.json) {
    showRecords(head, reply, receipt?.recordStart ?? head.recordNext, receipt?.recordNext ?? head.recordNext);
  }
}

export function showRecords(head: Head, reply: Reply, start: number, next: number): void {
  reply.flags |= REPLY_RECORDS;
  reply.recordFirst = head.recordFirst;
  reply.recordStart = start;
  reply.recordNext = next;
}

export function acceptProducer(
  state: State,
  head: Head,
  known: ProducerState | undefined,
  id: string,
  command: Command,
  recordStart: number,
): void {
  const producer = known ?? newProducer();
  accept(producer, command.producerEpoch, {
    seq: command.producerSeq,
    nextOffset: head.tail,
    recordStart,
    recordNext: head.recordNext,
    closed: head.closed,
  });
  head.hasProducers = true;
  state.keepProducer(head, id, producer);
}

/** [from, to) of a command's payload: one message, or so many records. */
export interface PayloadPart {
  readonly from: number;
  readonly to: number;
  /** Index of its first record end among the command's ends, and the number of its ends. */
  readonly firstEnd: number;
  readonly records: number;
}

export function wholePayload(sizeBytes: number, records: number): PayloadPart {
  return { from: 0, to: sizeBytes, firstEnd: 0, records };
}

/** Puts a part of the payload into rows and fills each row completely. Borders depend only on the sizes of appends. */
export function appendPayload(
  state: State,
  head: Head,
  messages: Messages,
  { from, to, firstEnd, records }: PayloadPart,
): void {
  const { bytes, view, payloadAt, endsAt } = messages;
  if (head.hotSinceMs < 0) listHot(state, head, messages.nowMs);
  let row = lastRow(state, head);
  const count = Math.max(1, records);
  let done = from;
  for (let message = 0; message < count; message++) {
    const end = message + 1 === count ? to : view.getUint32(endsAt + 4 * (firstEnd + message), true);
    while (done < end) {
      const left = end - done;
      if (row === undefined || row.space === 0) row = newRow(head, left);
      const part = Math.min(left, row.space);
      if (left < IN_PLACE_BYTES_MIN || row.length > 0) row.append(bytes, payloadAt + done, part);
      else row.hold(bytes.subarray(payloadAt + done, payloadAt + done + part));
      done += part;
      head.tail += part;
    }
    (row as DataRow).addEnd();
    head.recordNext++;
  }
}

/** Reads the rows that applying the command needs first, so that a damaged one refuses it before it is proposed. */
export function readAhead(state: State, command: Command): 'ROW_DAMAGED' | undefined {
  const { kind, bytes } = command;
  try {
    const head = state.find(bytes, command.keyAt, command.keyBytes);
    if (head === undefined || (kind !== COMMANDS.append.number && kind !== COMMANDS.appendBatch.number))
      return undefined;
    lastRow(state, head);
    state.buckets.of(state.tx, head.key, 0, head.bucketBytes);
    if (command.has(FLAG_PRODUCER)) storedProducer(state, head, command, command.producerId());
    return undefined;
  } catch (error) {
    if (error instanceof RowDamage) return 'ROW_DAMAGED';
    throw error;
  }
}

function storedProducer(state: State, head: Head, command: Command, id: string): ProducerState | undefined {
  const { bytes, producerIdAt, producerIdBytes } = command;
  return state.producer(head, id, bytes.slice(producerIdAt, producerIdAt + producerIdBytes));
}

/** The stream's last row if it may still have space. A full row is not worth reading. */
function lastRow(state: State, head: Head): DataRow | undefined {
  const length = head.tail - head.tailRowStart;
  return length === 0 || length >= ROW_PAYLOAD_BYTES_MAX ? undefined : state.tailRow(head);
}

/** A row for the next of `leftBytes`. */
function newRow(head: Head, leftBytes: number): DataRow {
  // A stream that filled a row will fill the next one, so allocate it at full size. Most streams never fill one.
  const filled = head.tail > 0 && leftBytes < IN_PLACE_BYTES_MIN;
  const row = new DataRow(head.tail, head.recordNext, filled ? new Uint8Array(ROW_PAYLOAD_BYTES_MAX) : undefined);
  head.tailRowStart = head.tail;
  head.rows.push(row);
  return row;
}

/** Usage of one committed, non-deduplicated operation. */
export function meter(state: State, bucket: Bucket, size: number, records: number): void {
  bucket.appendBytes += size;
  bucket.retainedBytes += size;
  state.hotBytes += size;
  bucket.records += records;
  bucket.writeUnits += writeUnits(size);
  state.buckets.touch(bucket);
}
