/**
 * Encodings of the cold tier in commands and replies: the lists of FLUSH, GC_DONE and MARK_ORPHAN, and the plan of a
 * cold read. Little-endian; texts and stream keys as size u16 and bytes. Commands come from our own leader and the log,
 * so an invalid list is a broken invariant, except where `undefined` is mentioned.
 */
import { assert } from '../base/assert.ts';
import { Reader, Writer, textFieldBytes } from '../base/cursor.ts';
import { f64, struct, u16, u32 } from '../base/struct.ts';

export const DIGEST_BYTES = 32;
export const OBJECT_ID_BYTES = 14;
const RUN = /^[0-9a-f]{16}$/;

/** Permanent id of an object: `run` is drawn at random for a process (16 hex digits), `seq` counts its uploads. */
export interface ObjectId {
  readonly run: string;
  readonly seq: number;
}

/** Location of bytes of one stream: a chunk (stream/cold/chunk-layout.ts) inside an object. */
export interface Chunk {
  readonly start: number;
  /** Offset after the last byte. */
  readonly end: number;
  /** Messages or records that end in the chunk: [firstRecord, recordNext). */
  readonly firstRecord: number;
  readonly recordNext: number;
  /** Offset at which the last of them ends; `start` when none does. */
  readonly lastEnd: number;
  /** Place of the encoded chunk in the object. */
  readonly at: number;
  readonly length: number;
  /** BLAKE3 of the encoded chunk. */
  readonly digest: Uint8Array;
}

/** One chunk of a flush. Those of one stream are consecutive and without gaps. */
export interface Slice extends Chunk {
  /** bucket NUL stream. */
  readonly stream: Uint8Array;
  readonly incarnation: number;
}

export interface FlushList {
  readonly object: ObjectId;
  readonly key: string;
  /** Size of the whole object. */
  readonly bytes: number;
  readonly slices: readonly Slice[];
}

/** @internal */
export const CHUNK_PLACE = struct(
  { start: f64, end: f64, firstRecord: f64, recordNext: f64, lastEnd: f64, at: u32, length: u32 },
  'digest, 32 bytes',
);
const CHUNK_BYTES = CHUNK_PLACE.size + DIGEST_BYTES;

/** Encoded size of a slice, for adding up a list. */
export function sliceBytes(streamBytes: number): number {
  return 2 + streamBytes + 8 + CHUNK_BYTES;
}

/** object | key text | bytes f64 | count u32 | slices: stream key, incarnation f64, chunk. */
export function encodeFlushList(list: FlushList): Uint8Array {
  let size = OBJECT_ID_BYTES + textFieldBytes(list.key) + 12;
  for (const slice of list.slices) size += sliceBytes(slice.stream.length);
  const writer = new Writer(new Uint8Array(size));
  writeObjectId(writer, list.object);
  writer.text(list.key);
  writer.int53(list.bytes);
  writer.u32(list.slices.length);
  for (const slice of list.slices) {
    writer.u16(slice.stream.length);
    writer.raw(slice.stream);
    writer.int53(slice.incarnation);
    writeChunk(writer, slice);
  }
  return writer.finish();
}

export function decodeFlushList(bytes: Uint8Array): FlushList {
  const reader = new Reader(bytes);
  const object = readObjectId(reader);
  const key = reader.text();
  const size = reader.int53();
  const slices: Slice[] = [];
  for (let left = reader.u32(); left > 0 && !reader.bad; left--) {
    const stream = reader.ownBytes(reader.u16());
    slices.push({ stream, incarnation: reader.int53(), ...readChunk(reader) });
  }
  assert(reader.finished, 'a flush list is well-formed');
  return { object, key, bytes: size, slices };
}

/** count u32 | sequence numbers of the GC queue, f64. */
export function encodeGcList(seqs: readonly number[]): Uint8Array {
  const writer = new Writer(new Uint8Array(4 + 8 * seqs.length));
  writer.u32(seqs.length);
  for (const seq of seqs) writer.int53(seq);
  return writer.finish();
}

export function decodeGcList(bytes: Uint8Array): number[] {
  const reader = new Reader(bytes);
  const seqs: number[] = [];
  for (let left = reader.u32(); left > 0 && !reader.bad; left--) seqs.push(reader.int53());
  assert(reader.finished, 'a GC list is well-formed');
  return seqs;
}

export interface Orphan {
  readonly object: ObjectId;
  readonly key: string;
}

/** count u32 | object, key text. */
export function encodeOrphanList(orphans: readonly Orphan[]): Uint8Array {
  let size = 4;
  for (const { key } of orphans) size += OBJECT_ID_BYTES + textFieldBytes(key);
  const writer = new Writer(new Uint8Array(size));
  writer.u32(orphans.length);
  for (const { object, key } of orphans) {
    writeObjectId(writer, object);
    writer.text(key);
  }
  return writer.finish();
}

export function decodeOrphanList(bytes: Uint8Array): Orphan[] {
  const reader = new Reader(bytes);
  const orphans: Orphan[] = [];
  for (let left = reader.u32(); left > 0 && !reader.bad; left--) {
    orphans.push({ object: readObjectId(reader), key: reader.text() });
  }
  assert(reader.finished, 'an orphan list is well-formed');
  return orphans;
}

/** run: 8 bytes | seq u48, both big-endian, so that encoded ids sort by process and then in order of their uploads. */
function writeObjectId(writer: Writer, { run, seq }: ObjectId): void {
  assert(RUN.test(run), `the run ${run} of an object has 16 hex digits`);
  for (let i = 0; i < 16; i += 2) writer.u8(Number.parseInt(run.slice(i, i + 2), 16));
  for (let shift = 40; shift >= 0; shift -= 8) writer.u8(Math.floor(seq / 2 ** shift) % 256);
}

function readObjectId(reader: Reader): ObjectId {
  let run = '';
  for (let i = 0; i < 8; i++) run += reader.u8().toString(16).padStart(2, '0');
  let seq = 0;
  for (let i = 0; i < 6; i++) seq = seq * 256 + reader.u8();
  return { run, seq };
}

/** The 14 bytes of an id in keys and rows. */
export function encodeObjectId(object: ObjectId): Uint8Array {
  const writer = new Writer(new Uint8Array(OBJECT_ID_BYTES));
  writeObjectId(writer, object);
  return writer.finish();
}

/** Reads an id at `at`. */
export function decodeObjectId(bytes: Uint8Array, at = 0): ObjectId {
  return readObjectId(new Reader(bytes.subarray(at, at + OBJECT_ID_BYTES)));
}

function writeChunk(writer: Writer, chunk: Chunk): void {
  writer.record(CHUNK_PLACE, chunk);
  writer.raw(chunk.digest);
}

function readChunk(reader: Reader): Chunk {
  return { ...reader.record(CHUNK_PLACE), digest: reader.ownBytes(DIGEST_BYTES) };
}

/** Value of a chunk's row: object | chunk. */
export function encodeChunkRow(object: ObjectId, chunk: Chunk): Uint8Array {
  const writer = new Writer(new Uint8Array(OBJECT_ID_BYTES + CHUNK_BYTES));
  writeObjectId(writer, object);
  writeChunk(writer, chunk);
  return writer.finish();
}

export interface StoredChunk extends Chunk {
  readonly object: ObjectId;
}

/** `value` may be reused afterwards. */
export function decodeChunkRow(value: Uint8Array): StoredChunk {
  const reader = new Reader(value);
  const object = readObjectId(reader);
  const chunk = readChunk(reader);
  assert(reader.finished, 'known chunk row');
  return { object, ...chunk };
}

/** A chunk with the key of its object, relative to storage.cold.root. */
export interface ChunkRef extends Chunk {
  readonly key: string;
}

/**
 * The information for answering a read from the cold store (src/stream/cold/assemble.ts), and for asking the shard
 * again. The rest (content type, first record, incarnation) is in the reply that carries it.
 */
export interface ColdPlan {
  /** The original READ. */
  readonly group: number;
  readonly stream: Uint8Array;
  readonly mode: number;
  readonly value: number;
  readonly flags: number;
  readonly maxBytes: number;
  readonly maxRecords: number;
  readonly incarnation: number;
  readonly json: boolean;
  readonly closed: boolean;
  /** Start of the answer; -1: where `startRecord` begins, somewhere in the first chunk. */
  readonly startOffset: number;
  readonly startRecord: number;
  /** `startOffset` is known to be a record boundary; otherwise the first chunk tells. */
  readonly onBorder: boolean;
  readonly tail: number;
  readonly recordTail: number;
  /** Consecutive chunks. The answer needs the first `needed` of them; the others are for read-ahead. */
  readonly needed: number;
  readonly refs: readonly ChunkRef[];
  /** The rows after the last chunk as a separate chunk, as many as the answer needs; empty: none. */
  readonly hot: Uint8Array;
}

/** @internal In a plan behind the key of the stream. */
export const PLAN_RANGE = struct(
  {
    ...{ value: f64, maxBytes: u32, maxRecords: u32, incarnation: f64, startOffsetPlus1: f64 },
    ...{ startRecord: f64, tail: f64, recordTail: f64, needed: u16, count: u16 },
  },
  'chunks, each with its key text; hot bytes',
);

const PLAN_JSON = 1;
const PLAN_CLOSED = 2;
const PLAN_ON_BORDER = 4;

/** group u16 | mode u8 | flags u8 | own flags u8 | stream key | PLAN_RANGE. */
export function encodeColdPlan(plan: ColdPlan): Uint8Array {
  let size = 5 + 2 + plan.stream.length + PLAN_RANGE.size + plan.hot.length;
  for (const ref of plan.refs) size += CHUNK_BYTES + textFieldBytes(ref.key);
  const writer = new Writer(new Uint8Array(size));
  writer.u16(plan.group);
  writer.u8(plan.mode);
  writer.u8(plan.flags);
  writer.u8((plan.json ? PLAN_JSON : 0) | (plan.closed ? PLAN_CLOSED : 0) | (plan.onBorder ? PLAN_ON_BORDER : 0));
  writer.u16(plan.stream.length);
  writer.raw(plan.stream);
  writer.record(PLAN_RANGE, { ...plan, startOffsetPlus1: plan.startOffset + 1, count: plan.refs.length });
  for (const ref of plan.refs) {
    writeChunk(writer, ref);
    writer.text(ref.key);
  }
  writer.raw(plan.hot);
  return writer.finish();
}

/** `bytes` may be reused afterwards. */
export function decodeColdPlan(bytes: Uint8Array): ColdPlan {
  const reader = new Reader(bytes);
  const group = reader.u16();
  const mode = reader.u8();
  const flags = reader.u8();
  const own = reader.u8();
  const stream = reader.ownBytes(reader.u16());
  const { startOffsetPlus1, count, ...range } = reader.record(PLAN_RANGE);
  const refs: ChunkRef[] = [];
  for (let left = count; left > 0 && !reader.bad; left--) refs.push({ ...readChunk(reader), key: reader.text() });
  const hot = reader.ownBytes(reader.leftBytes);
  assert(reader.finished, 'a cold plan is well-formed');
  return {
    ...{ group, stream, mode, flags, refs, hot, ...range },
    startOffset: startOffsetPlus1 - 1,
    json: (own & PLAN_JSON) !== 0,
    closed: (own & PLAN_CLOSED) !== 0,
    onBorder: (own & PLAN_ON_BORDER) !== 0,
  };
}
