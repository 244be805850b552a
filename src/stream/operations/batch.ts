/**
 * Append-batch. Without a producer each frame is an append of its own, accepted or refused independently. With a
 * producer the batch is one sequence: all frames or none. An expected offset is that of the first frame, and when it is
 * not the tail, or that frame is refused, no frame is taken.
 *
 * The reply's body is the JSON array for the client; its record range is that of the whole batch.
 */
import { ERRORS, type ErrorCode } from '../../base/errors.ts';
import { encodeUtf8 } from '../../base/utf8.ts';
import { FRAME_HEAD_BYTES, frameBytes } from '../../protocol/append-batch.ts';
import { type Command, FLAG_PRODUCER, FLAG_RECORDS } from '../../protocol/command.ts';
import { REPLY_DUPLICATE, type Reply } from '../../protocol/reply.ts';
import {
  acceptProducer,
  admitProducer,
  type PayloadPart,
  appendPayload,
  checkAppend,
  meter,
  refuse,
  refuseAbsent,
  refuseWrite,
  showRecords,
} from './append.ts';
import { type Bucket, exceedsRetained } from '../core/buckets.ts';
import type { Head } from '../core/head.ts';
import type { ProducerState } from '../core/producers.ts';
import type { State } from '../core/state.ts';
import { COMMANDS } from '../../protocol/operations.ts';

export function applyBatch(state: State, command: Command, reply: Reply): void {
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  if (head === undefined || head.expired(command.nowMs)) return refuseAbsent(state, head, command, reply);
  const frames = framesOf(command);
  const bucket = state.buckets.of(state.tx, head.key, 0, head.bucketBytes);
  const isWhole = command.has(FLAG_PRODUCER);
  const producerId = isWhole ? command.producerId() : '';
  const idBytes = command.bytes.subarray(command.producerIdAt, command.producerIdAt + command.producerIdBytes);
  const producer = isWhole ? state.producer(head, producerId, idBytes) : undefined;
  if (isWhole && !admitWhole(head, bucket, producer, command, frames, reply)) return undefined;
  if (!isWhole && checkAppend(head, command) === 'EXPECTED_OFFSET_CONFLICT') {
    return refuseWrite(reply, 'EXPECTED_OFFSET_CONFLICT', head, command);
  }
  const from = head.tail;
  const recordStart = head.recordNext;
  const results: string[] = [];
  let framesRefused = 0;
  /** The code of the frame that is to stand at the expected offset: no later frame may take its place. */
  let refused: ErrorCode = 'OK';
  for (const frame of frames) {
    const size = frame.to - frame.from;
    const code: ErrorCode = isWhole ? 'OK' : checkFrame(head, bucket, command, { size, from, refused });
    if (results.length === 0 && command.expectedOffset >= 0) refused = code;
    const first = head.recordNext;
    if (code === 'OK') store(state, head, command, frame);
    else framesRefused++;
    if (code === 'OK' && !isWhole) meter(state, bucket, size, head.recordNext - first);
    results.push(result(code, head, first));
  }
  if (isWhole) {
    meter(state, bucket, head.tail - from, head.recordNext - recordStart);
    acceptProducer(state, head, producer, producerId, command, recordStart);
  }
  COMMANDS.appendBatch.result.write(reply, { framesRefused });
  reply.startOffset = from;
  reply.nextOffset = head.tail;
  reply.body = encodeResults(results);
  if (head.json) showRecords(head, reply, recordStart, head.recordNext);
  if (head.tail === from) return undefined;
  head.touchedAtMs = Math.max(head.touchedAtMs, command.nowMs);
  head.writtenAtMs = command.nowMs;
  state.touch(head, head.tail - from);
  state.listener?.changed(head, from);
  return undefined;
}

/** `size` of the frame, `from`: where the batch begins, `refused`: the code that the first frame gave to all others. */
function checkFrame(
  head: Head,
  bucket: Bucket,
  command: Command,
  { size, from, refused }: { readonly size: number; readonly from: number; readonly refused: ErrorCode },
): ErrorCode {
  if (refused !== 'OK') return refused;
  if (size === 0) return 'EMPTY_BODY';
  const code = checkAppend(head, command, from);
  return code === 'OK' && exceedsRetained(bucket, size) ? 'QUOTA_EXCEEDED' : code;
}

/** A producer's batch is accepted as one unit. Returns false when it is not, with the reply filled in. */
function admitWhole(
  head: Head,
  bucket: Bucket,
  producer: ProducerState | undefined,
  command: Command,
  frames: readonly PayloadPart[],
  reply: Reply,
): boolean {
  if (!admitProducer(head, producer, command, reply)) {
    if (reply.has(REPLY_DUPLICATE)) reply.body = encodeResults(repeatedResults(head, frames, reply));
    return false;
  }
  const size = frames.reduce((sum, frame) => sum + frame.to - frame.from, 0);
  const refused = checkAppend(head, command);
  if (refused !== 'OK') refuseWrite(reply, refused, head, command);
  else if (frames.some((frame) => frame.from === frame.to)) refuse(reply, 'EMPTY_BODY', head);
  else if (exceedsRetained(bucket, size)) refuse(reply, 'QUOTA_EXCEEDED', head);
  else return true;
  return false;
}

function framesOf(command: Command): PayloadPart[] {
  const frames: PayloadPart[] = [];
  const { bytes, payloadAt, payloadBytes } = command;
  const ends = command.has(FLAG_RECORDS) ? command.recordCount : 0;
  let nextEnd = 0;
  for (let at = 0; at < payloadBytes;) {
    const from = at + FRAME_HEAD_BYTES;
    const to = from + frameBytes(bytes, payloadAt + at);
    const firstEnd = nextEnd;
    while (nextEnd < ends && command.view.getUint32(command.endsAt + 4 * nextEnd, true) <= to) nextEnd++;
    frames.push({ from, to, firstEnd, records: nextEnd - firstEnd });
    at = to;
  }
  return frames;
}

function store(state: State, head: Head, command: Command, frame: PayloadPart): void {
  if (head.contentType === '') {
    head.setContentType(state.intern(command.contentType()));
    head.typeFromAppend = true;
  }
  appendPayload(state, head, command, frame);
}

/** 204 with the records made, or only the status of the refusal. Batches exist on the bucketed routes only. */
function result(code: ErrorCode, head: Head, firstRecord: number): string {
  if (code !== 'OK') return `{"status":${ERRORS[code].bucketed}}`;
  if (!head.json) return '{"status":204}';
  return `{"status":204,"stream_record_start":${firstRecord},"stream_record_next":${head.recordNext}}`;
}

/**
 * Results of a batch that was accepted before. Receipts hold the range of the whole batch; the repeated request itself
 * says how it was divided. When the two do not match (another body, or a receipt that has left the window), no ranges
 * are shown.
 */
function repeatedResults(head: Head, frames: readonly PayloadPart[], reply: Reply): string[] {
  const total = frames.reduce((sum, frame) => sum + frame.records, 0);
  const fits = head.json && total > 0 && total === reply.recordNext - reply.recordStart;
  let record = reply.recordStart;
  return frames.map((frame) => {
    if (!fits) return '{"status":204}';
    const start = record;
    record += frame.records;
    return `{"status":204,"stream_record_start":${start},"stream_record_next":${record}}`;
  });
}

function encodeResults(results: readonly string[]): Uint8Array {
  return encodeUtf8(`[${results.join(',')}]`);
}
