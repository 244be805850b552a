/** Where the rows of a stream begin, and the flush index: which streams have bytes in rows, and since when. */
import { assert } from '../../base/assert.ts';
import { planted } from '../../base/planted.ts';
import type { Head } from '../core/head.ts';
import { flushKey } from '../core/keys.ts';
import { RowView } from '../core/row-view.ts';
import { DataRow } from '../core/row.ts';
import type { State } from '../core/state.ts';
import { releaseChunks } from './release.ts';

/** The stream gets its first byte in rows. */
export function listHot(state: State, head: Head, nowMs: number): void {
  head.hotSinceMs = nowMs;
  state.overlay.put(flushKey(state.prefix, nowMs, head.incarnation), head.key);
}

export function unlistHot(state: State, head: Head): void {
  if (head.hotSinceMs < 0) return;
  state.overlay.delete(flushKey(state.prefix, head.hotSinceMs, head.incarnation));
  head.hotSinceMs = -1;
}

/** Ordinal of the message or record that begins at `offset`; -1 when none does. */
export function recordAt(state: State, head: Head, offset: number): number {
  if (offset === head.tail) return head.recordNext;
  if (offset === head.hotStart) return head.hotRecord;
  const view = new RowView();
  state.hotRows.of(head).viewAt(view, offset - 1, -1);
  const ends = view.endsUpTo(offset - view.start);
  return ends > 0 && view.end(ends - 1) === offset - view.start ? view.firstRecord + ends : -1;
}

/**
 * The rows now begin at `offset`, where message or record `record` begins; earlier ones become garbage. A row across
 * the boundary is split, so replicas hold the same rows whatever they have written before.
 */
export function moveHotStart(state: State, head: Head, offset: number, record: number, nowMs: number): void {
  assert(offset > head.hotStart && offset <= head.tail, 'rows begin further behind, up to the tail');
  const rest = offset === head.tail ? undefined : rowFrom(state, head, offset);
  if (rest === undefined || !planted('flushed-bytes-still-counted')) state.hotBytes -= offset - head.hotStart;
  head.hotStart = planted('frontier-moves-back') && offset < head.tail ? head.startOffset : offset;
  head.hotRecord = record;
  head.rows = head.rows.filter((row) => row.start >= offset);
  if (head.tailRowStart < offset) head.tailRowStart = offset;
  if (rest !== undefined) {
    assert(rest.firstRecord === record, 'a record begins where the rows begin');
    if (!planted('split-loses-the-rest')) head.rows.unshift(rest);
  }
  state.markGarbage(head);
  unlistHot(state, head);
  if (offset < head.tail) listHot(state, head, nowMs);
  state.touch(head, rest?.encodedBytes ?? 0);
}

/** The part of the row that holds `offset` from there on, as a new row; undefined when a row already begins there. */
function rowFrom(state: State, head: Head, offset: number): DataRow | undefined {
  const view = new RowView();
  state.hotRows.of(head).viewAt(view, offset, -1);
  if (view.start === offset) return undefined;
  const from = offset - view.start;
  const before = view.endsUpTo(from);
  const row = new DataRow(offset, view.firstRecord + before, new Uint8Array(view.length - from));
  const shift = planted('split-shifts-bytes') ? 1 : 0;
  view.copy(from - shift, view.length - shift, row.bytes, 0);
  row.length = view.length - from;
  row.ends = new Uint32Array(view.count - before);
  for (let i = before; i < view.count; i++) row.ends[i - before] = view.end(i) - from;
  row.count = row.ends.length;
  return row;
}

/**
 * Bytes below `offset`, where message or record `record` begins, are gone for readers. Chunks entirely below it are
 * released, rows become garbage, and the gauges follow. The caller checks the boundary: below hotStart only the cold
 * store knows it.
 */
export function raiseStartOffset(state: State, head: Head, offset: number, record: number, nowMs: number): void {
  assert(offset >= head.startOffset && offset <= head.tail, 'the start offset rises, up to the tail');
  if (offset === head.startOffset) return;
  const bucket = state.buckets.of(state.tx, head.key, 0, head.bucketBytes);
  bucket.retainedBytes -= offset - head.startOffset;
  state.buckets.touch(bucket);
  const anyCold = head.startOffset < head.hotStart;
  head.startOffset = offset;
  head.recordFirst = record;
  if (offset > head.hotStart && !planted('start-offset-passes-rows')) moveHotStart(state, head, offset, record, nowMs);
  if (anyCold) releaseChunks(state, head.incarnation, offset, nowMs, false);
  state.touch(head, 0);
}
