/**
 * A data row: a run of a stream's bytes with the ends of the messages (byte streams) or records (JSON streams) that end
 * inside it. Row borders depend only on the sequence of appends, so replicas hold the same rows.
 * `firstRecord` is the ordinal of the first message or record that ends at or after the row's start.
 */
import { byteAt, uint32At, viewOf } from '../../base/bytes.ts';
import { assert } from '../../base/assert.ts';
import { PAGE_VALUE_BYTES } from '../../base/limits.ts';
import { f64, struct, u32, u8, zeros } from '../../base/struct.ts';

export const ROW_FORMAT = 1;
export const DATA_ROW = struct(
  { format: u8, zeros: zeros(3), count: u32, firstRecord: f64 },
  '`count` ends, u32 each, relative to the row; bytes',
);
export const DATA_HEAD = DATA_ROW.fields;
/** Value of an index by record: where the data row or chunk begins. */
export const START_ROW = struct({ start: f64 });
/** A row's first message gets what it needs, as rows of quiet streams stay at one; the second shows a busy stream. */
const GROWN_BYTES_MIN = 512;
const INITIAL_ENDS = 2;
const GROWN_ENDS_MIN = 16;
export const END_BYTES = 4;
const NO_BYTES = new Uint8Array(0);
/** Payload of a row in which one message ends. */
export const ROW_PAYLOAD_BYTES_MAX = PAGE_VALUE_BYTES - DATA_ROW.size - END_BYTES;

export class DataRow {
  readonly start: number;
  readonly firstRecord: number;
  bytes: Uint8Array;
  length = 0;
  ends: Uint32Array;
  count = 0;
  /** Differs from what the store holds. */
  dirty = true;
  /** The store has no row at this start yet, and therefore no record-index row either. */
  fresh = true;

  constructor(start: number, firstRecord: number, bytes = NO_BYTES, ends = new Uint32Array(INITIAL_ENDS)) {
    this.start = start;
    this.firstRecord = firstRecord;
    this.bytes = bytes;
    this.ends = ends;
  }

  /** Offset after the last byte. */
  get end(): number {
    return this.start + this.length;
  }

  /** Bytes that still fit, reserving space for the end of a message; 0 = full. */
  get space(): number {
    return Math.max(0, ROW_PAYLOAD_BYTES_MAX - END_BYTES * this.count - this.length);
  }

  append(source: Uint8Array, from: number, size: number): void {
    assert(size > 0 && size <= this.space, 'a row takes what fits');
    const needed = this.length + size;
    if (needed > this.bytes.length) {
      const grownBytes = Math.max(needed, GROWN_BYTES_MIN, this.bytes.length * 2);
      const grown = new Uint8Array(this.length === 0 ? needed : Math.min(ROW_PAYLOAD_BYTES_MAX, grownBytes));
      grown.set(this.bytes.subarray(0, this.length));
      this.bytes = grown;
    }
    if (size <= 64) {
      const bytes = this.bytes;
      for (let i = 0, at = this.length; i < size; i++, at++) bytes[at] = byteAt(source, from + i);
    } else {
      this.bytes.set(source.subarray(from, from + size), this.length);
    }
    this.length = needed;
    this.dirty = true;
  }

  /** Makes `bytes` the content of an empty row. They stay where they are and must not change. */
  hold(bytes: Uint8Array): void {
    assert(this.length === 0 && bytes.length <= this.space, 'an empty row takes what fits');
    this.bytes = bytes;
    this.length = bytes.length;
    this.dirty = true;
  }

  /** Records that a message or record ends at the current end of the row. */
  addEnd(): void {
    assert(this.length > 0, 'a message ends inside its row');
    if (this.count === this.ends.length) {
      const grown = new Uint32Array(Math.max(GROWN_ENDS_MIN, this.count * 2));
      grown.set(this.ends);
      this.ends = grown;
    }
    this.ends[this.count++] = this.length;
    this.dirty = true;
  }

  get encodedBytes(): number {
    return endAt(this.count) + this.length;
  }

  encode(target: Uint8Array, view: DataView): number {
    writeRowHead(view, 0, this.count, this.firstRecord);
    let at = DATA_ROW.size;
    for (let i = 0; i < this.count; i++, at += END_BYTES) view.setUint32(at, uint32At(this.ends, i), true);
    target.set(this.bytes.subarray(0, this.length), at);
    return at + this.length;
  }
}

export function writeRowHead(view: DataView, at: number, count: number, firstRecord: number): void {
  DATA_HEAD.format.set(view, at, ROW_FORMAT);
  DATA_HEAD.zeros.clear(view, at);
  DATA_HEAD.count.set(view, at, count);
  DATA_HEAD.firstRecord.set(view, at, firstRecord);
}

/** Position of the i-th end in a stored row; behind all of them begin the bytes. */
export function endAt(i: number): number {
  return DATA_ROW.size + END_BYTES * i;
}

/** Payload bytes of a stored row; 0 or less: it is not a row. */
export function storedPayloadBytes(value: Uint8Array): number {
  if (value.length < DATA_ROW.size || value[0] !== ROW_FORMAT) return 0;
  return value.length - endAt(DATA_HEAD.count.get(viewOf(value), 0));
}

/**
 * Decodes a stored row into a new object; `value` may be reused afterwards. Bytes and ends are copied once: the ends
 * are a view of the copy, which the layout aligns. (Typed arrays are little-endian on every platform Node runs on.)
 */
export function decodeRow(start: number, value: Uint8Array): DataRow {
  assert(value[0] === ROW_FORMAT, 'known data row format');
  const copy = value.slice();
  const view = viewOf(copy);
  const count = DATA_HEAD.count.get(view, 0);
  const ends = new Uint32Array(copy.buffer, DATA_ROW.size, count);
  const row = new DataRow(start, DATA_HEAD.firstRecord.get(view, 0), NO_BYTES, ends);
  row.bytes = copy.subarray(endAt(count));
  row.length = row.bytes.length;
  row.count = count;
  row.dirty = false;
  row.fresh = false;
  return row;
}
