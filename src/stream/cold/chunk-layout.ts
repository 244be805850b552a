/**
 * A chunk in an object of the cold store: a run of one stream's data rows, with the ends of its messages or records, so
 * that nothing is lost. Formats are permanent: objects outlive the version that wrote them.
 *
 * A store's output is not trusted: decoding is total.
 */
import { viewOf } from '../../base/bytes.ts';
import { f64, struct, u32, zeros } from '../../base/struct.ts';

export const CHUNK_HEAD = struct(
  {
    ...{ magic: u32, format: u32, incarnation: f64, start: f64, end: f64, firstRecord: f64, recordNext: f64 },
    ...{ rows: u32, zeros: zeros(4) },
  },
  'rows',
);
/** In front of each row (stream/core/row.ts). */
export const CHUNK_ROW = struct({ rowBytes: u32 }, 'the value of the row');
const MAGIC = 0x4b43524d;
const FORMAT = 1;

export interface ChunkHead {
  readonly incarnation: number;
  readonly start: number;
  readonly end: number;
  readonly firstRecord: number;
  readonly recordNext: number;
}

/** Writes the header of a chunk at `at`; `rows` rows follow, each preceded by its size. */
export function writeChunkHead(head: ChunkHead, rows: number, view: DataView, at: number): void {
  CHUNK_HEAD.write(view, at, { ...head, magic: MAGIC, format: FORMAT, rows });
}

export interface DecodedChunk extends ChunkHead {
  /** Values of the rows, as views of the chunk. */
  readonly rows: readonly Uint8Array[];
}

/** Undefined: not a chunk of a known format. */
export function decodeChunk(bytes: Uint8Array): DecodedChunk | undefined {
  if (bytes.length < CHUNK_HEAD.size) return undefined;
  const view = viewOf(bytes);
  const { magic, format, rows: count, ...head } = CHUNK_HEAD.read(view, 0);
  if (magic !== MAGIC || format !== FORMAT) return undefined;
  const rows: Uint8Array[] = [];
  let at = CHUNK_HEAD.size;
  for (let left = count; left > 0; left--) {
    if (at + CHUNK_ROW.size > bytes.length) return undefined;
    const size = CHUNK_ROW.fields.rowBytes.get(view, at);
    at += CHUNK_ROW.size;
    if (size > bytes.length - at) return undefined;
    rows.push(bytes.subarray(at, at + size));
    at += size;
  }
  if (at !== bytes.length) return undefined;
  return { ...head, rows };
}
