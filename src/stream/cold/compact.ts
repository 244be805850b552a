/** The command COMPACT: one chunk replaces a run of chunks with the same bytes. */
import { decodeUtf8 } from '../../base/utf8.ts';
import { planted } from '../../base/planted.ts';
import { type ObjectId, type Slice, type StoredChunk, decodeFlushList } from '../../protocol/cold.ts';
import type { Command } from '../../protocol/command.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { State } from '../core/state.ts';
import { CHUNK_DIRTY_BYTES, eachChunk, putChunk } from './chunks.ts';
import { GC_MERGED, addObject, objectKnown, sameObject } from './objects.ts';
import { dropChunks } from './release.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/**
 * Publishes an uploaded object whose slices hold the bytes of runs of chunks. Each slice is checked separately and
 * refused when its stream has other chunks by now (removed, recreated, merged by another leader, start offset beyond). The
 * runs' references are released, with their own grace period for earlier backups. As in a flush, an unreferenced object
 * is garbage, and a known one is a repetition.
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

/**
 * There are several chunks, and together they match the slice. None is part of the object itself: two slices may be
 * alike.
 */
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
