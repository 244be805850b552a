/**
 * A data row: a run of a stream's bytes with the ends of the messages (byte streams) or records (JSON streams) that end
 * inside it. Row borders depend only on the sequence of appends, so replicas hold the same rows.
 *
 * Encoded: format u8 (1) | 0 u8 | 0 u16 | count u32 | firstRecord f64 | ends u32[count], relative to the row | bytes.
 * `firstRecord` = ordinal of the first message or record that ends at or after the row's start.
 */
import { assert } from '../base/assert.ts';
import { PAGE_VALUE_BYTES } from '../base/limits.ts';

export const ROW_FORMAT = 1;
export const ROW_HEAD_BYTES = 16;
const INITIAL_BYTES = 512;
const INITIAL_ENDS = 16;
export const END_BYTES = 4;
const NO_BYTES = new Uint8Array(0);
/** Payload of a row in which one message ends. */
export const ROW_PAYLOAD_BYTES_MAX = PAGE_VALUE_BYTES - ROW_HEAD_BYTES - END_BYTES;

export class Row {
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

  constructor(
    start: number,
    firstRecord: number,
    bytes = new Uint8Array(INITIAL_BYTES),
    ends = new Uint32Array(INITIAL_ENDS),
  ) {
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
      const grown = new Uint8Array(
        Math.min(ROW_PAYLOAD_BYTES_MAX, Math.max(needed, INITIAL_BYTES, this.bytes.length * 2)),
      );
      grown.set(this.bytes.subarray(0, this.length));
      this.bytes = grown;
    }
    if (size <= 64) {
      const bytes = this.bytes;
      for (let i = 0, at = this.length; i < size; i++, at++) bytes[at] = source[from + i] as number;
    } else {
      this.bytes.set(source.subarray(from, from + size), this.length);
    }
    this.length = needed;
    this.dirty = true;
  }

  /** Records that a message or record ends at the current end of the row. */
  addEnd(): void {
    assert(this.length > 0, 'a message ends inside its row');
    if (this.count === this.ends.length) {
      const grown = new Uint32Array(Math.max(INITIAL_ENDS, this.count * 2));
      grown.set(this.ends);
      this.ends = grown;
    }
    this.ends[this.count++] = this.length;
    this.dirty = true;
  }

  get encodedBytes(): number {
    return ROW_HEAD_BYTES + 4 * this.count + this.length;
  }

  encode(target: Uint8Array, view: DataView): number {
    target.fill(0, 0, 4);
    target[0] = ROW_FORMAT;
    view.setUint32(4, this.count, true);
    view.setFloat64(8, this.firstRecord, true);
    let at = ROW_HEAD_BYTES;
    for (let i = 0; i < this.count; i++, at += 4) view.setUint32(at, this.ends[i] as number, true);
    target.set(this.bytes.subarray(0, this.length), at);
    return at + this.length;
  }
}

/**
 * Decodes a stored row into a new object; `value` may be reused afterwards. Bytes and ends are copied once: the ends
 * are a view of the copy, which the layout aligns. (Typed arrays are little-endian on every platform Node runs on.)
 */
export function decodeRow(start: number, value: Uint8Array): Row {
  assert(value[0] === ROW_FORMAT, 'known data row format');
  const copy = value.slice();
  const view = new DataView(copy.buffer);
  const count = view.getUint32(4, true);
  const row = new Row(start, view.getFloat64(8, true), NO_BYTES, new Uint32Array(copy.buffer, ROW_HEAD_BYTES, count));
  row.bytes = copy.subarray(ROW_HEAD_BYTES + END_BYTES * count);
  row.length = row.bytes.length;
  row.count = count;
  row.dirty = false;
  row.fresh = false;
  return row;
}
