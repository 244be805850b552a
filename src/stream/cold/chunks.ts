/** Rows about a stream's chunks: by start, and by the first record that ends in them. */
import { type Chunk, type ObjectId, type StoredChunk, decodeChunkRow, encodeChunkRow } from '../../protocol/cold.ts';
import type { Head } from '../core/head.ts';
import { TAG, positionKey } from '../core/keys.ts';
import { START_ROW } from '../core/row.ts';
import type { State } from '../core/state.ts';

/** Cost of a chunk's two rows for the next flush, in bytes. */
export const CHUNK_DIRTY_BYTES = 200;

export function putChunk(state: State, head: Head, object: ObjectId, chunk: Chunk): void {
  const { prefix, overlay } = state;
  overlay.put(positionKey(prefix, TAG.chunk, head.incarnation, chunk.start), encodeChunkRow(object, chunk));
  state.cold.bytes += chunk.end - chunk.start;
  if (!head.json || chunk.recordNext === chunk.firstRecord) return;
  const start = START_ROW.encode({ start: chunk.start });
  overlay.put(positionKey(prefix, TAG.chunkRecord, head.incarnation, chunk.firstRecord), start);
}

/** The stream may be gone, so its content type is unknown. */
export function deleteChunk(state: State, incarnation: number, chunk: Chunk): void {
  state.overlay.delete(positionKey(state.prefix, TAG.chunk, incarnation, chunk.start));
  state.cold.bytes -= chunk.end - chunk.start;
  if (chunk.recordNext === chunk.firstRecord) return;
  state.overlay.delete(positionKey(state.prefix, TAG.chunkRecord, incarnation, chunk.firstRecord));
}

/** The chunk that holds `offset` and the previous one, if they exist. */
export function chunksAt(state: State, head: Head, offset: number): { at?: StoredChunk; before?: StoredChunk } {
  const found: StoredChunk[] = [];
  const from = positionKey(state.prefix, TAG.chunk, head.incarnation, 0);
  const to = positionKey(state.prefix, TAG.chunk, head.incarnation, offset + 1);
  state.overlay.range(from, to, true, (_key, value) => found.push(decodeChunkRow(value)) < 2);
  const [at, before] = found;
  return { ...(at === undefined ? {} : { at }), ...(before === undefined ? {} : { before }) };
}

export function chunkKey({ prefix }: State, { incarnation }: Head, start: number): Uint8Array {
  return positionKey(prefix, TAG.chunk, incarnation, start);
}

/** Visits chunks from `start` on, in order, until `visit` returns false. */
export function eachChunk(
  state: State,
  incarnation: number,
  start: number,
  visit: (chunk: StoredChunk) => boolean,
): void {
  const from = positionKey(state.prefix, TAG.chunk, incarnation, start);
  const to = positionKey(state.prefix, TAG.chunk, incarnation, Number.MAX_SAFE_INTEGER);
  state.overlay.range(from, to, false, (_key, value) => visit(decodeChunkRow(value)));
}

/** Visits the chunks that begin before `before`, last one first, until `visit` returns false. */
export function eachChunkBack(
  state: State,
  incarnation: number,
  before: number,
  visit: (chunk: StoredChunk) => boolean,
): void {
  const from = positionKey(state.prefix, TAG.chunk, incarnation, 0);
  const to = positionKey(state.prefix, TAG.chunk, incarnation, before);
  state.overlay.range(from, to, true, (_key, value) => visit(decodeChunkRow(value)));
}

/** Start of the chunk in which `record` ends, which is at or after the start offset and before the rows. */
export function chunkStartOfRecord(state: State, head: Head, record: number): number {
  let start = -1;
  const from = positionKey(state.prefix, TAG.chunkRecord, head.incarnation, 0);
  const to = positionKey(state.prefix, TAG.chunkRecord, head.incarnation, record + 1);
  state.overlay.range(from, to, true, (_key, value) => {
    ({ start } = START_ROW.decode(value));
    return false;
  });
  return start;
}
