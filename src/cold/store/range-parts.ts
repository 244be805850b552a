/**
 * Memory for a range of an object that is read in parts. Each part has its own memory, so that it can move to another
 * thread and be kept without the others; bytes are copied into it once, as they arrive.
 */
import { Buffer } from 'node:buffer';
import { StoreError } from './store-error.ts';

export class Parts {
  readonly parts: readonly Uint8Array<ArrayBuffer>[];
  /** Total length. */
  readonly length: number;
  #filled = 0;
  /** Position of the next byte. */
  #part = 0;
  #at = 0;

  constructor(lengths: readonly number[]) {
    // Not zeroed: the reader ensures that they are filled.
    this.parts = lengths.map((length) => new Uint8Array(Buffer.allocUnsafeSlow(length).buffer));
    this.length = lengths.reduce((sum, length) => sum + length, 0);
  }

  /** The next bytes of the range. `key` is for the error when there are more than requested. */
  add(key: string, bytes: Uint8Array): void {
    if (bytes.length > this.length - this.#filled)
      throw new StoreError('bad', `${key}: the store sent more than the ${this.length} bytes that were asked for`);
    this.#filled += bytes.length;
    for (let from = 0; from < bytes.length;) {
      const part = this.parts[this.#part] as Uint8Array;
      const size = Math.min(bytes.length - from, part.length - this.#at);
      part.set(size === bytes.length ? bytes : bytes.subarray(from, from + size), this.#at);
      from += size;
      this.#at += size;
      if (this.#at < part.length) continue;
      this.#part++;
      this.#at = 0;
    }
  }

  /** All bytes have arrived; `offset` is where the range begins in the object. */
  finish(key: string, offset: number): void {
    if (this.#filled === this.length) return;
    throw new StoreError('bad', `${key}: the object ends at byte ${offset + this.#filled} of ${offset + this.length}`);
  }
}
