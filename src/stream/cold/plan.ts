/** Plans the cold part of a read: which chunks, and which part of the rows after them. */
import { ROW_MISSING, RowDamage, needRow } from '../../base/row-damage.ts';
import type { ErrorCode } from '../../base/errors.ts';
import { COLD_AHEAD_CHUNKS, COLD_REFS_MAX } from '../../base/limits.ts';
import { planted } from '../../base/planted.ts';
import { type StoredChunk, encodeColdPlan } from '../../protocol/cold.ts';
import type { ReadRange } from '../../protocol/read-fields.ts';
import type { ReadPlan } from '../core/collect.ts';
import type { Head } from '../core/head.ts';
import type { State } from '../core/state.ts';
import { ChunkWriter } from './chunk-writer.ts';
import { chunkKey, chunkStartOfRecord, chunksAt, eachChunk } from './chunks.ts';
import { withKeys } from './objects.ts';

const NO_BYTES = new Uint8Array(0);

interface Start {
  /** -1: where `record` begins, somewhere in `chunk`. */
  readonly offset: number;
  readonly record: number;
  readonly onBorder: boolean;
  readonly chunk: StoredChunk;
}

/** `plan` begins before the rows: at its offset, or at its record when that is -1. Its body becomes the cold plan. */
export function planCold(
  state: State,
  head: Head,
  query: ReadRange,
  plan: ReadPlan,
  budget: number,
  records: number,
): ErrorCode {
  const start = plan.startOffset < 0 ? startOfRecord(state, head, plan.recordStart) : startAt(state, head, plan);
  if (start === undefined) return 'OFFSET_INSIDE_RECORD';
  plan.startOffset = Math.max(start.offset, start.chunk.start);
  plan.nextOffset = plan.startOffset;
  const chosen = choose(state, head, start, plan.json || plan.parts, budget, records);
  const { mode, value, readFlags: flags, maxBytes, maxRecords } = query;
  const { incarnation, json, closed, tail, recordNext: recordTail } = head;
  plan.body = encodeColdPlan({
    ...{ group: state.group, stream: head.key, mode, value, flags, maxBytes, maxRecords },
    ...{ incarnation, json, closed, tail, recordTail, needed: chosen.needed },
    ...{ startOffset: start.offset, startRecord: start.record, onBorder: start.onBorder },
    refs: withKeys(state, chosen.chunks),
    hot: chosen.hotBytes <= 0 ? NO_BYTES : hotPart(state, head, chosen.hotBytes),
  });
  return 'OK';
}

const NOT_ADJACENT = 'the chunk before it ends elsewhere';

/** Undefined: inside a record, according to the chunks' rows. */
function startAt(state: State, head: Head, plan: ReadPlan): Start | undefined {
  const offset = plan.startOffset;
  const { at, before } = chunksAt(state, head, offset);
  needRow(at !== undefined && offset < at.end, chunkKey(state, head, offset), `no chunk has offset ${offset}`);
  let onBorder = offset === head.startOffset || (offset === at.lastEnd && offset > at.start);
  if (!onBorder && offset === at.start && (plan.json || plan.parts)) {
    needRow(before?.end === offset, chunkKey(state, head, offset), NOT_ADJACENT);
    if (before.lastEnd !== offset) return undefined;
    onBorder = true;
  }
  return { offset, record: 0, onBorder, chunk: at };
}

function startOfRecord(state: State, head: Head, record: number): Start {
  const { at: chunk } = chunksAt(state, head, chunkStartOfRecord(state, head, record - 1));
  const hasRecord = chunk !== undefined && record <= chunk.recordNext;
  needRow(hasRecord, head.key, `no chunk has the end of record ${record - 1}`);
  if (record < chunk.recordNext) return { offset: -1, record, onBorder: true, chunk };
  if (chunk.lastEnd < chunk.end) return { offset: chunk.lastEnd, record, onBorder: true, chunk };
  const next = chunksAt(state, head, chunk.end).at;
  needRow(next?.start === chunk.end, chunkKey(state, head, chunk.end), NOT_ADJACENT);
  return { offset: chunk.end, record, onBorder: true, chunk: next };
}

interface Chosen {
  readonly chunks: readonly StoredChunk[];
  readonly needed: number;
  /** Bytes of rows that the answer may hold after the chunks. */
  readonly hotBytes: number;
}

/**
 * Chunks up to `budget` bytes, or `records` records when their number is known, and a complete record in any case when
 * `whole`; then some for read-ahead.
 */
function choose(
  state: State,
  head: Head,
  { offset, record, chunk: first }: Start,
  whole: boolean,
  budget: number,
  records: number,
): Chosen {
  const chunks: StoredChunk[] = [];
  let needed = 0;
  let bytes = 0;
  let end = first.start;
  eachChunk(state, head.incarnation, first.start, (chunk) => {
    if (chunk.start !== end) throw new RowDamage(chunkKey(state, head, end), NOT_ADJACENT);
    end = chunk.end;
    chunks.push(chunk);
    if (needed > 0) return chunks.length < needed + COLD_AHEAD_CHUNKS;
    // How much of its first chunk a read by record uses is unknown, possibly almost nothing.
    if (offset >= 0) bytes += chunk.end - Math.max(offset, chunk.start);
    else if (chunk.start !== first.start) bytes += chunk.end - chunk.start;
    const one = !whole || (offset >= 0 ? endBehind(chunk, offset) : chunk.recordNext > record);
    const all = bytes >= budget || (record > 0 && chunk.recordNext >= record + records);
    if (one && (all || chunks.length >= COLD_REFS_MAX)) needed = chunks.length;
    return true;
  });
  if (planted('plan-skips-a-chunk')) chunks.shift();
  const reachesRows = needed === 0 && end === head.hotStart;
  needRow(needed > 0 || reachesRows, chunkKey(state, head, end), ROW_MISSING);
  return { chunks, needed: needed === 0 ? chunks.length : needed, hotBytes: reachesRows ? budget - bytes : 0 };
}

/** A message or record ends in the chunk, after `offset`. */
function endBehind({ firstRecord, recordNext, lastEnd }: StoredChunk, offset: number): boolean {
  return recordNext > firstRecord && lastEnd > offset;
}

/** The first rows as a chunk: enough for `bytes`. */
function hotPart(state: State, head: Head, bytes: number): Uint8Array {
  if (head.hotStart === head.tail) return NO_BYTES;
  const writer = new ChunkWriter(state.memory);
  const to = Math.min(head.tail, head.hotStart + bytes);
  writer.add(state.hotRows.of(head), head.incarnation, head.hotStart, to, Infinity);
  return writer.finish();
}
