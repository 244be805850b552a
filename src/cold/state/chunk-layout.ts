/**
 * A chunk in an object of the cold store: a run of one stream's data rows, with the ends of its messages or records, so
 * that nothing is lost. Formats are permanent: objects outlive the version that wrote them.
 *
 *   0 magic 'MRCK' | 4 format u8 (1) | 5 zero u24 | 8 incarnation f64 | 16 start f64 | 24 end f64 | 32 firstRecord f64
 *  40 recordNext f64 | 48 rows u32 | 52 zero u32 | 56 rows, each as size u32 and the row's value (stream/row.ts)
 *
 * Little-endian. A store's output is not trusted: decoding is total.
 */
export const CHUNK_HEAD_BYTES = 56;
/** Per row, in addition to its value. */
export const CHUNK_ROW_BYTES = 4;
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
  view.setUint32(at, MAGIC, true);
  view.setUint32(at + 4, FORMAT, true);
  view.setFloat64(at + 8, head.incarnation, true);
  view.setFloat64(at + 16, head.start, true);
  view.setFloat64(at + 24, head.end, true);
  view.setFloat64(at + 32, head.firstRecord, true);
  view.setFloat64(at + 40, head.recordNext, true);
  view.setUint32(at + 48, rows, true);
  view.setUint32(at + 52, 0, true);
}

export interface DecodedChunk extends ChunkHead {
  /** Values of the rows, as views of the chunk. */
  readonly rows: readonly Uint8Array[];
}

/** Undefined: not a chunk of a known format. */
export function decodeChunk(bytes: Uint8Array): DecodedChunk | undefined {
  if (bytes.length < CHUNK_HEAD_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(0, true) !== MAGIC || view.getUint32(4, true) !== FORMAT) return undefined;
  const rows: Uint8Array[] = [];
  let at = CHUNK_HEAD_BYTES;
  for (let left = view.getUint32(48, true); left > 0; left--) {
    if (at + CHUNK_ROW_BYTES > bytes.length) return undefined;
    const size = view.getUint32(at, true);
    at += CHUNK_ROW_BYTES;
    if (size > bytes.length - at) return undefined;
    rows.push(bytes.subarray(at, at + size));
    at += size;
  }
  if (at !== bytes.length) return undefined;
  return {
    incarnation: view.getFloat64(8, true),
    start: view.getFloat64(16, true),
    end: view.getFloat64(24, true),
    firstRecord: view.getFloat64(32, true),
    recordNext: view.getFloat64(40, true),
    rows,
  };
}
