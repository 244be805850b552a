/** Turns rows into consecutive chunks (stream/cold/chunk-layout.ts) in one growing buffer. */
import { COLD_CHUNK_BYTES } from '../../base/limits.ts';
import { CHUNK_HEAD, CHUNK_ROW, writeChunkHead } from './chunk-layout.ts';
import type { Chunk } from '../../protocol/cold.ts';
import type { RowSource, WorkMemory } from '../core/collect.ts';
import { RowView } from '../core/row-view.ts';

const INITIAL_BYTES = 64 * 1024;
/** Memory kept for the next writer: one object of typical size. Growing a buffer each time costs more than chunks. */
const KEPT_BYTES = 16 * 1024 * 1024;
const NOTHING = new Uint8Array(0);

export type UnhashedChunk = Omit<Chunk, 'digest'>;

export class ChunkWriter {
  #bytes: Uint8Array = NOTHING;
  #view: DataView = new DataView(NOTHING.buffer);
  #length = 0;
  readonly #row = new RowView();
  readonly #memory: WorkMemory;

  constructor(memory: WorkMemory) {
    this.#memory = memory;
  }

  get length(): number {
    return this.#length;
  }

  /** Everything written, in its own buffer. The writer cannot be used afterwards. */
  finish(): Uint8Array<ArrayBuffer> {
    const whole = new Uint8Array(this.#length);
    whole.set(this.#bytes.subarray(0, this.#length));
    if (this.#bytes.length <= KEPT_BYTES) this.#memory.chunks = this.#bytes;
    this.#bytes = whole;
    return whole;
  }

  /** Takes back what lies behind the first `length` bytes. */
  rewind(length: number): void {
    this.#length = length;
  }

  /**
   * Writes one chunk with the rows of [start, to): as many as fit into `most` bytes, at least one. A row begins at
   * `start`; the last row is cut off at `to`.
   */
  add(source: RowSource, incarnation: number, start: number, to: number, most = COLD_CHUNK_BYTES): UnhashedChunk {
    const at = this.#length;
    const view = this.#row;
    this.#reserve(CHUNK_HEAD.size);
    this.#length += CHUNK_HEAD.size;
    let rows = 0;
    let end = start;
    let firstRecord = 0;
    let recordNext = 0;
    let lastEnd = start;
    while (end < to) {
      source.viewAt(view, end, end);
      const part = Math.min(view.length, to - end);
      const size = CHUNK_ROW.size + view.valueBytes(part);
      if (rows > 0 && this.#length - at + size > most) break;
      this.#reserve(size);
      CHUNK_ROW.fields.rowBytes.set(this.#view, this.#length, size - CHUNK_ROW.size);
      this.#length = view.writeValue(part, this.#bytes, this.#view, this.#length + CHUNK_ROW.size);
      const ends = view.endsUpTo(part);
      if (rows === 0) firstRecord = view.firstRecord;
      if (ends > 0) lastEnd = end + view.end(ends - 1);
      recordNext = view.firstRecord + ends;
      end += part;
      rows++;
    }
    writeChunkHead({ incarnation, start, end, firstRecord, recordNext }, rows, this.#view, at);
    return { start, end, firstRecord, recordNext, lastEnd, at, length: this.#length - at };
  }

  #reserve(extra: number): void {
    if (this.#length + extra <= this.#bytes.length) return;
    // Allocated with the first byte: most writers find nothing to write.
    const spare = this.#bytes === NOTHING ? this.#memory.chunks : undefined;
    if (spare !== undefined) this.#memory.chunks = undefined;
    const size = Math.max(this.#length + extra, 2 * this.#bytes.length, INITIAL_BYTES);
    const grown = spare !== undefined && spare.length >= size ? spare : new Uint8Array(size);
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}
