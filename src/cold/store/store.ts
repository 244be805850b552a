/** An object store as the cold tier needs it. Keys are relative to `storage.cold.root`; no object is written twice. */
import { Buffer } from 'node:buffer';
import type { ObjectPage, StoreFailure } from '../ports.ts';

export class StoreError extends Error {
  readonly failure: StoreFailure;

  constructor(failure: StoreFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StoreError';
    this.failure = failure;
  }
}

/** Methods throw StoreError and nothing else. */
export interface ObjectStore {
  /** The location in words, for messages. */
  readonly place: string;
  /** On stable storage when it returns; complete or absent, never partial. */
  put(key: string, body: Uint8Array): Promise<void>;
  /** From `offset` on, exactly as many bytes as `parts` holds. */
  read(key: string, offset: number, parts: Parts): Promise<void>;
  /** As many bytes from `offset` on as there are, `bytesMax` at most. */
  readUpTo(key: string, offset: number, bytesMax: number): Promise<Uint8Array<ArrayBuffer>>;
  /** Objects whose key begins with `prefix` and sorts after `after`; foreign ones are listed too. */
  list(prefix: string, after: string, limit: number): Promise<ObjectPage>;
  /** Missing keys are not an error. */
  remove(keys: readonly string[]): Promise<void>;
  close(): void;
}

/** S3 allows 1024 bytes including the root; file names end at 255. */
export const KEY_BYTES_MAX = 512;

/** Throws for a key that could leave the root, hide (a dot begins temporary files) or be ambiguous between stores. */
export function checkKey(key: string): void {
  const isPlain =
    key.length <= KEY_BYTES_MAX && key.split('/').every((part) => /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(part));
  if (!isPlain) throw new StoreError('denied', `${JSON.stringify(key.slice(0, 80))} is not a usable object key`);
}

/**
 * Memory for a range of an object that is read in parts. Each part has its own memory, so that it can move to another
 * thread and be kept without the others; bytes are copied into it once, as they arrive.
 */
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

  /** How many bytes have arrived. */
  get filled(): number {
    return this.#filled;
  }

  /** All bytes have arrived; `offset` is where the range begins in the object. */
  finish(key: string, offset: number): void {
    if (this.#filled === this.length) return;
    throw new StoreError('bad', `${key}: the object ends at byte ${offset + this.#filled} of ${offset + this.length}`);
  }
}

/** Exactly `length` bytes from `offset` on. */
export async function readRange(
  objects: { read(key: string, offset: number, parts: Parts, signal?: AbortSignal): Promise<void> },
  key: string,
  offset: number,
  length: number,
  signal?: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const parts = new Parts([length]);
  await objects.read(key, offset, parts, signal);
  return parts.parts[0] as Uint8Array<ArrayBuffer>;
}
