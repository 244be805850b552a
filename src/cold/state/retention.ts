/** The retention floor moves. */
import { assert } from '../../base/assert.ts';
import { planted } from '../../base/planted.ts';
import type { Head } from '../../stream/head.ts';
import type { State } from '../../stream/state.ts';
import { moveHotStart } from './hot.ts';
import { releaseChunks } from './release.ts';

/**
 * Bytes below `offset`, where message or record `record` begins, are gone for readers. Chunks that lie wholly below are
 * given back, rows become garbage; the gauges follow. The border is the caller's to check: below hotStart only the cold
 * store knows it.
 */
export function advanceFloor(state: State, head: Head, offset: number, record: number, nowMs: number): void {
  assert(offset >= head.floor && offset <= head.tail, 'the floor rises, up to the tail');
  if (offset === head.floor) return;
  const bucket = state.buckets.of(state.tx, head.key, 0, head.bucketBytes);
  bucket.retainedBytes -= offset - head.floor;
  state.buckets.touch(bucket);
  const anyCold = head.floor < head.hotStart;
  head.floor = offset;
  head.recordFirst = record;
  if (offset > head.hotStart && !planted('floor-without-rows')) moveHotStart(state, head, offset, record, nowMs);
  if (anyCold) releaseChunks(state, head.incarnation, offset, nowMs, false);
  state.touch(head, 0);
}
