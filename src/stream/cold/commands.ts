/** The commands of the cold tier: FLUSH, COMPACT, GC_DONE, MARK_ORPHAN. */
import { decodeUtf8 } from '../../base/utf8.ts';
import { planted } from '../../base/planted.ts';
import {
  type FlushList,
  type Slice,
  decodeOrphanList,
  decodeFlushList,
  decodeGcList,
  type ObjectId,
  type StoredChunk,
} from '../../protocol/cold.ts';
import type { Command } from '../../protocol/command.ts';
import { NO_ORIGIN } from '../../protocol/object-key.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { Head } from '../core/head.ts';
import type { State } from '../core/state.ts';
import { CHUNK_DIRTY_BYTES, putChunk, eachChunk } from './chunks.ts';
import { moveHotStart, recordAt } from './hot.ts';
import { addObject, forgetObject, objectKnown, GC_MERGED, sameObject } from './objects.ts';
import { COMMANDS } from '../../protocol/operations.ts';
import { dropChunks } from './release.ts';

/**
 * FLUSH: publishes an uploaded object; its slices replace the rows that they hold. Slices whose stream
 * changed otherwise since (removed, recreated, flushed by another leader, start offset beyond) are
 * refused, all slices of a stream together; an object left without references is garbage. A known
 * object is a repetition of the command: nothing happens.
 */
export function applyFlush(state: State, command: Command, reply: Reply): void {
  const list = decodeFlushList(command.payload());
  if (objectKnown(state, list.object)) return;
  if (state.cold.origin === NO_ORIGIN) state.cold.origin = list.object.run;
  // Without slices nothing was uploaded: the first flush of a group, which establishes its origin.
  if (list.slices.length === 0) return;
  const bucket = command.bytes.subarray(command.keyAt, command.keyAt + command.keyBytes);
  let accepted = 0;
  for (let i = 0; i < list.slices.length;) {
    const run = runAt(list.slices, i);
    if (acceptRun(state, list, run, command.nowMs)) accepted += run.length;
    i += run.length;
  }
  const { object, key, bytes } = list;
  const refs = planted('pack-counted-short') && accepted > 1 ? accepted - 1 : accepted;
  addObject(state, { object, refs, bytes, bucket: decodeUtf8(bucket), key }, command.nowMs);
  COMMANDS.flush.result.write(reply, { slicesAccepted: accepted });
}

/** The slices of one stream from `first` on. */
function runAt(slices: readonly Slice[], first: number): readonly Slice[] {
  const { incarnation } = slices[first] as Slice;
  let end = first + 1;
  while (slices[end]?.incarnation === incarnation) end++;
  return slices.slice(first, end);
}

function acceptRun(state: State, list: FlushList, run: readonly Slice[], nowMs: number): boolean {
  const [first] = run as readonly [Slice];
  const last = run[run.length - 1] as Slice;
  const head = state.findAny(first.stream, 0, first.stream.length);
  if (head === undefined) return false;
  if (head.incarnation !== first.incarnation && !planted('wrong-incarnation-accepted')) return false;
  const isNext = first.start === head.hotStart && first.firstRecord === head.hotRecord;
  if (!isNext && !(planted('flush-anywhere') && first.start <= head.hotStart)) return false;
  if (!follows(run) || !endsWell(state, head, last)) return false;
  for (const slice of run) putChunk(state, head, list.object, slice);
  state.touch(head, CHUNK_DIRTY_BYTES * run.length);
  moveHotStart(state, head, last.end, last.recordNext, nowMs);
  return true;
}

/** Contiguous and individually valid. */
function follows(run: readonly Slice[]): boolean {
  let { start, firstRecord } = run[0] as Slice;
  for (const slice of run) {
    if (slice.start !== start || slice.end <= start || slice.firstRecord !== firstRecord) return false;
    if (slice.recordNext < firstRecord || slice.lastEnd < start || slice.lastEnd > slice.end) return false;
    start = slice.end;
    firstRecord = slice.recordNext;
  }
  return true;
}

/** At a message or record boundary of the stream. */
function endsWell(state: State, head: Head, last: Slice): boolean {
  if (last.end > head.tail || last.lastEnd !== last.end) return false;
  return recordAt(state, head, last.end) === last.recordNext;
}

/**
 * COMPACT: publishes an uploaded object whose slices hold the bytes of runs of chunks. Each slice is checked
 * separately and refused when its stream has other chunks by now (removed, recreated, merged by another leader, start
 * offset beyond). The runs' references are released, with their own grace period for earlier backups. As in a flush,
 * an unreferenced object is garbage, and a known one is a repetition.
 */
export function applyCompact(state: State, command: Command, reply: Reply): void {
  const list = decodeFlushList(command.payload());
  if (objectKnown(state, list.object)) return;
  const bucket = command.bytes.subarray(command.keyAt, command.keyAt + command.keyBytes);
  let accepted = 0;
  for (const slice of list.slices) if (acceptSlice(state, list.object, slice, command.nowMs)) accepted++;
  const { object, key, bytes } = list;
  addObject(state, { object, refs: accepted, bytes, bucket: decodeUtf8(bucket), key }, command.nowMs);
  COMMANDS.compact.result.write(reply, { slicesAccepted: accepted });
}

function acceptSlice(state: State, object: ObjectId, slice: Slice, nowMs: number): boolean {
  const head = state.findAny(slice.stream, 0, slice.stream.length);
  if (head === undefined || head.incarnation !== slice.incarnation) return false;
  const run: StoredChunk[] = [];
  eachChunk(state, head.incarnation, slice.start, (chunk) => chunk.end <= slice.end && run.push(chunk) > 0);
  if (!isWhole(run, slice, object)) return false;
  // Chunks below the start offset will be released.
  if ((run[0] as StoredChunk).end <= head.startOffset) return false;
  const replaced = planted('merge-keeps-references') ? run.slice(1) : run;
  dropChunks(state, head.incarnation, replaced, nowMs, GC_MERGED);
  putChunk(state, head, object, slice);
  state.touch(head, CHUNK_DIRTY_BYTES * (run.length + 1));
  return true;
}

/** Several chunks, which together match the slice. None is part of the object itself: slices may be alike. */
function isWhole(run: readonly StoredChunk[], slice: Slice, object: ObjectId): boolean {
  const first = run[0];
  const last = run[run.length - 1];
  if (first === undefined || last === undefined || first === last) return false;
  if (first.start !== slice.start || first.firstRecord !== slice.firstRecord) return false;
  if (last.end !== slice.end || last.recordNext !== slice.recordNext) return false;
  if (lastEndOf(run) !== slice.lastEnd) return false;
  return run.every((chunk) => !sameObject(chunk.object, object));
}

/** Offset at which the last message of the run ends; its start when there is none. */
export function lastEndOf(run: readonly StoredChunk[]): number {
  for (let i = run.length - 1; i >= 0; i--) {
    const { firstRecord, recordNext, lastEnd } = run[i] as StoredChunk;
    if (recordNext > firstRecord) return lastEnd;
  }
  return (run[0] as StoredChunk).start;
}

/** GC_DONE: objects were deleted from the store. Missing entries indicate a repetition. */
export function applyGcDone(state: State, command: Command): void {
  const bytes = command.payload();
  for (const seq of decodeGcList(bytes)) forgetObject(state, seq);
}

/** MARK_ORPHAN: unreferenced objects, unless they have become known meanwhile. */
export function applyMarkOrphan(state: State, command: Command): void {
  const bytes = command.payload();
  for (const { object, key } of decodeOrphanList(bytes)) {
    if (objectKnown(state, object) && !planted('marks-known-objects')) continue;
    addObject(state, { object, refs: 0, bytes: 0, bucket: '', key }, command.nowMs);
  }
}
