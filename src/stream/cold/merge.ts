/**
 * Merges a run of chunks into one chunk. Rows are filled again, because chunks flushed one by one hold a message each.
 * Pure; runs in the threads of the pool.
 */
import { PAGE_VALUE_BYTES } from '../../base/limits.ts';
import { CHUNK_HEAD, CHUNK_ROW, decodeChunk, writeChunkHead } from './chunk-layout.ts';
import type { Chunk } from '../../protocol/cold.ts';
import { DataRow, storedPayloadBytes } from '../core/row.ts';
import { RowView } from '../core/row-view.ts';

type Source = Pick<Chunk, 'start' | 'end' | 'firstRecord' | 'recordNext'>;

/** Consecutive full rows of one stream. */
class Refill {
  /** The row that is taken over. */
  readonly view = new RowView();
  readonly #scratch = new Uint8Array(PAGE_VALUE_BYTES);
  readonly rows: DataRow[] = [];
  #row: DataRow;
  #record: number;

  constructor(start: number, record: number) {
    this.#row = new DataRow(start, record);
    this.#record = record;
    this.rows.push(this.#row);
  }

  /** Appends [from, to) of the viewed row. */
  add(from: number, to: number): void {
    for (let at = from; at < to;) {
      if (this.#row.space === 0) {
        this.#row = new DataRow(this.#row.end, this.#record);
        this.rows.push(this.#row);
      }
      const size = Math.min(to - at, this.#row.space);
      this.view.copy(at, at + size, this.#scratch, 0);
      this.#row.append(this.#scratch, 0, size);
      at += size;
    }
  }

  endMessage(): void {
    this.#row.addEnd();
    this.#record++;
  }
}

/** `sources[i]` describes the chunk `chunks[i]`. Undefined: one of them is invalid, or they are not contiguous. */
export function mergeChunks(
  incarnation: number,
  sources: readonly Source[],
  chunks: readonly Uint8Array[],
): Uint8Array | undefined {
  const first = sources[0];
  if (first === undefined) return undefined;
  const refill = new Refill(first.start, first.firstRecord);
  const { view } = refill;
  let at = first.start;
  let record = first.firstRecord;
  for (const [i, source] of sources.entries()) {
    const chunk = decodeChunk(chunks[i] ?? new Uint8Array(0));
    if (chunk === undefined || chunk.incarnation !== incarnation || source.start !== at) return undefined;
    if (chunk.start !== source.start || chunk.end !== source.end || source.firstRecord !== record) return undefined;
    if (chunk.firstRecord !== source.firstRecord || chunk.recordNext !== source.recordNext) return undefined;
    for (const value of chunk.rows) {
      if (storedPayloadBytes(value) <= 0) return undefined;
      view.ofValue(at, value);
      // A row without an end also says which message ends next.
      if (view.firstRecord !== record) return undefined;
      let from = 0;
      for (let end = 0; end < view.count; end++, from = view.end(end - 1)) {
        const to = view.end(end);
        if (to <= from || to > view.length) return undefined;
        refill.add(from, to);
        refill.endMessage();
      }
      refill.add(from, view.length);
      at = view.stop;
      record += view.count;
    }
    if (at !== source.end || record !== source.recordNext) return undefined;
  }
  return encode(
    { incarnation, start: first.start, end: at, firstRecord: first.firstRecord, recordNext: record },
    refill,
  );
}

function encode(head: Parameters<typeof writeChunkHead>[0], { rows }: Refill): Uint8Array {
  const bytes = new Uint8Array(rows.reduce((sum, row) => sum + CHUNK_ROW.size + row.encodedBytes, CHUNK_HEAD.size));
  const out = new DataView(bytes.buffer);
  writeChunkHead(head, rows.length, out, 0);
  let at = CHUNK_HEAD.size;
  for (const row of rows) {
    const size = row.encodedBytes;
    CHUNK_ROW.fields.rowBytes.set(out, at, size);
    at += CHUNK_ROW.size;
    row.encode(bytes.subarray(at, at + size), new DataView(bytes.buffer, at, size));
    at += size;
  }
  return bytes;
}
