/**
 * Plans the next upload of a group's leader: the oldest bytes in rows, as chunks in one body. It only reads the state;
 * the FLUSH command after the upload publishes the result.
 *
 * A flush ends at a message boundary, so that no record is split between rows and the cold store. A single message
 * larger than the limits is uploaded alone.
 */
import { FLUSH_LIST_BYTES_MAX, FLUSH_SLICES_MAX } from '../../base/limits.ts';
import { RowDamage } from '../../base/row-damage.ts';
import { type Slice, sliceBytes } from '../../protocol/cold.ts';
import { readText } from '../../base/text.ts';
import type { Head } from '../core/head.ts';
import { TAG, equalsPart, firstTime, flushKey, taggedKey, timedIncarnationOf } from '../core/keys.ts';
import { RowView } from '../core/row-view.ts';
import type { State } from '../core/state.ts';
import { ChunkWriter } from './chunk-writer.ts';

const NOTHING = new Uint8Array(0);
/** Entries of the flush index that one search examines to find those of the first one's bucket. */
const LOOKS_MAX = 4 * FLUSH_SLICES_MAX;
/** A stream of which less than this fits is left to the next object instead of being cut. */
const CUT_BYTES_MIN = 64 * 1024;

/** Streams with rows that the disk changed, by incarnation. */
export interface DamagedStreams {
  has(incarnation: number): boolean;
  add(incarnation: number): void;
}

export interface FlushLimits {
  /** Streams with bytes in rows since before this; Infinity: all with any. */
  readonly hotBeforeMs: number;
  /** Payload of the object, unless one message is larger. */
  readonly maxBytes: number;
  readonly maxSlices?: number;
  /** Size of a chunk, unless one row is larger. */
  readonly chunkBytes?: number;
  /** Key of the only stream wanted. */
  readonly only?: Uint8Array;
  /** Left out; streams that turn out to be are added. Undefined: a changed row is thrown. */
  readonly damaged?: DamagedStreams;
}

interface HotStream {
  readonly stream: Uint8Array;
  readonly incarnation: number;
}

export interface FlushPlan {
  readonly bucket: string;
  /** The only stream in the object; 0 = several. */
  readonly incarnation: number;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly slices: readonly Omit<Slice, 'digest'>[];
  /** Payload. */
  readonly bytes: number;
}

/** Undefined: nothing is due. */
export function nextFlush(state: State, limits: FlushLimits): FlushPlan | undefined {
  const slicesMax = Math.min(limits.maxSlices ?? FLUSH_SLICES_MAX, FLUSH_SLICES_MAX);
  const streams =
    limits.only === undefined ? oldest(state, limits, slicesMax) : [{ stream: limits.only, incarnation: 0 }];
  const writer = new ChunkWriter(state.memory);
  const slices: Omit<Slice, 'digest'>[] = [];
  let listBytes = 0;
  let left = limits.maxBytes;
  for (const { stream, incarnation } of streams) {
    const [bytesBefore, slicesBefore] = [writer.length, slices.length];
    try {
      const head = state.findAny(stream, 0, stream.length);
      if (head === undefined || head.hotStart === head.tail) continue;
      if (slices.length > 0 && left < Math.min(CUT_BYTES_MIN, head.tail - head.hotStart)) break;
      const to = flushEnd(state, head, left);
      // Longer than the remaining space: it begins the next object.
      if (slices.length > 0 && to - head.hotStart > left) break;
      for (let start = head.hotStart; start < to;) {
        const chunk = writer.add(state.hotRows.of(head), head.incarnation, start, to, limits.chunkBytes);
        slices.push({ stream, incarnation: head.incarnation, ...chunk });
        listBytes += sliceBytes(stream.length);
        start = chunk.end;
      }
      left -= to - head.hotStart;
    } catch (error) {
      if (!(error instanceof RowDamage) || limits.damaged === undefined) throw error;
      limits.damaged.add(incarnation);
      // Bytes that were read for nothing count: all of this is one turn.
      left -= writer.length - bytesBefore;
      writer.rewind(bytesBefore);
      slices.length = slicesBefore;
    }
    if (left <= 0 || slices.length >= slicesMax || listBytes >= FLUSH_LIST_BYTES_MAX) break;
  }
  const [first] = slices;
  if (first === undefined) return undefined;
  const single = slices.every(({ incarnation }) => incarnation === first.incarnation);
  return {
    bucket: readText(first.stream, 0, first.stream.indexOf(0)),
    incarnation: single ? first.incarnation : 0,
    body: writer.finish(),
    slices,
    bytes: slices.reduce((sum, slice) => sum + slice.end - slice.start, 0),
  };
}

/** Time in milliseconds since which the oldest bytes are in rows; undefined when there are none. */
export function oldestHotMs(state: State): number | undefined {
  return firstTime(state.overlay, taggedKey(state.prefix, TAG.flush));
}

/** One bucket's streams that have waited longest, oldest first. */
function oldest(state: State, { hotBeforeMs, damaged }: FlushLimits, most: number): HotStream[] {
  const streams: HotStream[] = [];
  const from = taggedKey(state.prefix, TAG.flush);
  const to = flushKey(state.prefix, Math.min(hotBeforeMs, Number.MAX_SAFE_INTEGER), 0);
  let bucket = NOTHING;
  let looks = 0;
  state.overlay.range(from, to, false, (key, stream) => {
    const incarnation = timedIncarnationOf(key);
    if (damaged?.has(incarnation) === true) return true;
    if (streams.length === 0) bucket = stream.slice(0, stream.indexOf(0) + 1);
    if (streams.length === 0 || equalsPart(bucket, stream, 0, bucket.length))
      streams.push({ stream: stream.slice(), incarnation });
    return streams.length < most && ++looks < LOOKS_MAX;
  });
  return streams;
}

/** Where a flush of about `most` bytes of the stream ends: the last message end up to there, else the first one. */
function flushEnd(state: State, head: Head, most: number): number {
  if (head.tail - head.hotStart <= most) return head.tail;
  const rows = state.hotRows.of(head);
  const view = new RowView();
  let limit = head.hotStart + Math.max(1, most);
  rows.viewAt(view, limit - 1, -1);
  for (;;) {
    const ends = view.endsUpTo(limit - view.start);
    if (ends > 0) return view.start + view.end(ends - 1);
    if (view.start <= head.hotStart) break;
    limit = view.start;
    rows.viewAt(view, limit - 1, -1);
  }
  for (rows.viewAt(view, head.hotStart, head.hotStart); view.count === 0;) rows.viewAt(view, view.stop, view.stop);
  return view.start + view.end(0);
}
