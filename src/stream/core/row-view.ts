/**
 * A view of a data row in place: in memory, or in the store's own buffer. Reads copy from here straight into the
 * answer, so a row of a cold stream costs no allocation. One object serves a whole read.
 */
import { byteAt, uint32At } from '../../base/bytes.ts';
import { assert } from '../../base/assert.ts';
import { DATA_HEAD, DATA_ROW, END_BYTES, ROW_FORMAT, type DataRow, endAt, writeRowHead } from './row.ts';

const NO_BYTES = new Uint8Array(0);

export class RowView {
  start = 0;
  /** Ordinal of the first message or record that ends in the row. */
  firstRecord = 0;
  /** Messages or records that end in the row. */
  count = 0;
  /** Payload bytes. */
  length = 0;
  #bytes: Uint8Array = NO_BYTES;
  #dataAt = 0;
  /** Undefined: the ends are in #bytes, after the row's header. */
  #ends: Uint32Array | undefined = undefined;

  get stop(): number {
    return this.start + this.length;
  }

  ofRow(row: DataRow): void {
    this.start = row.start;
    this.firstRecord = row.firstRecord;
    this.count = row.count;
    this.length = row.length;
    this.#bytes = row.bytes;
    this.#dataAt = 0;
    this.#ends = row.ends;
  }

  /** `value` must not change while the view is used. */
  ofValue(start: number, value: Uint8Array): void {
    const view = new DataView(value.buffer, value.byteOffset, DATA_ROW.size);
    assert(DATA_HEAD.format.get(view, 0) === ROW_FORMAT, 'known data row format');
    this.start = start;
    this.count = DATA_HEAD.count.get(view, 0);
    this.firstRecord = DATA_HEAD.firstRecord.get(view, 0);
    this.#bytes = value;
    this.#dataAt = endAt(this.count);
    this.length = value.length - this.#dataAt;
    this.#ends = undefined;
  }

  /** End of the i-th message or record, relative to the row. */
  end(i: number): number {
    if (this.#ends !== undefined) return uint32At(this.#ends, i);
    const bytes = this.#bytes;
    const at = endAt(i);
    // A row fits a page, so only two bytes are ever set.
    return byteAt(bytes, at) | (byteAt(bytes, at + 1) << 8);
  }

  /** Number of messages or records that end at or before `position`, relative to the row. */
  endsUpTo(position: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end(middle) <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Copies [from, to), relative to the row, to `at` of `target`. */
  copy(from: number, to: number, target: Uint8Array, at: number): void {
    target.set(this.#bytes.subarray(this.#dataAt + from, this.#dataAt + to), at);
  }

  /** Size of the row's value when cut off at `to` (relative to the row). */
  valueBytes(to: number): number {
    return endAt(to === this.length ? this.count : this.endsUpTo(to)) + to;
  }

  /** Writes the row's value, cut off at `to`, in the stored format; returns where it ends. */
  writeValue(to: number, target: Uint8Array, targetView: DataView, at: number): number {
    if (this.#ends === undefined && to === this.length) {
      target.set(this.#bytes, at);
      return at + this.#bytes.length;
    }
    const count = this.endsUpTo(to);
    writeRowHead(targetView, at, count, this.firstRecord);
    let put = at + DATA_ROW.size;
    for (let i = 0; i < count; i++, put += END_BYTES) targetView.setUint32(put, this.end(i), true);
    this.copy(0, to, target, put);
    return put + to;
  }
}
