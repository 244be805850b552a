/**
 * Rows as one MessagePack array [key, value, ...] of byte strings, written in place: a general encoder would copy each
 * row three times, and at hundreds of megabytes per second that is most of the work.
 */

/** Maximum header of an array and of a byte string. */
const HEAD_BYTES_MAX = 5;
/** Space beyond the size at which a batch is full, for the row that crosses it; a larger row grows the batch. */
const SLACK_BYTES = 64 * 1024;

export class RowBatch {
  readonly #capacity: number;
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  /** The array's header is written last, directly before the rows. */
  #at = HEAD_BYTES_MAX;
  #items = 0;

  constructor(fullBytes: number) {
    this.#capacity = fullBytes + SLACK_BYTES;
    this.#bytes = plain(this.#capacity);
    this.#view = new DataView(this.#bytes.buffer);
  }

  get isEmpty(): boolean {
    return this.#items === 0;
  }

  /** Key and value are copied. */
  add(key: Uint8Array, value: Uint8Array): void {
    this.#reserve(2 * HEAD_BYTES_MAX + key.length + value.length);
    this.#put(key);
    this.#put(value);
    this.#items += 2;
  }

  /** The array, in its own memory; the batch is empty afterwards. */
  take(): Uint8Array<ArrayBuffer> {
    const start = HEAD_BYTES_MAX - arrayHeadBytes(this.#items);
    const bytes = this.#bytes;
    const view = this.#view;
    if (this.#items < 16) bytes[start] = 0x90 | this.#items;
    else if (this.#items < 0x1_0000) {
      bytes[start] = 0xdc;
      view.setUint16(start + 1, this.#items);
    } else {
      bytes[start] = 0xdd;
      view.setUint32(start + 1, this.#items);
    }
    const array = bytes.subarray(start, this.#at);
    this.#bytes = plain(this.#capacity);
    this.#view = new DataView(this.#bytes.buffer);
    this.#at = HEAD_BYTES_MAX;
    this.#items = 0;
    return array;
  }

  #put(item: Uint8Array): void {
    const size = item.length;
    if (size < 0x100) {
      this.#bytes[this.#at] = 0xc4;
      this.#bytes[this.#at + 1] = size;
      this.#at += 2;
    } else if (size < 0x1_0000) {
      this.#bytes[this.#at] = 0xc5;
      this.#view.setUint16(this.#at + 1, size);
      this.#at += 3;
    } else {
      this.#bytes[this.#at] = 0xc6;
      this.#view.setUint32(this.#at + 1, size);
      this.#at += HEAD_BYTES_MAX;
    }
    this.#bytes.set(item, this.#at);
    this.#at += size;
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return;
    const larger = plain(Math.max(2 * this.#bytes.length, this.#at + bytes));
    larger.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }
}

function arrayHeadBytes(items: number): number {
  return items < 16 ? 1 : items < 0x1_0000 ? 3 : HEAD_BYTES_MAX;
}

/** Not zeroed, and not part of a pool: it may go to another thread. */
function plain(size: number): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, length } = Buffer.allocUnsafeSlow(size);
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, length);
}
