/** What the cold tier needs of an object store. Keys are relative to `storage.cold.root`; no object is ever written twice. */
import type { ListedObject } from '../ports.ts';
import type { Parts } from './range-parts.ts';
import { StoreError } from './store-error.ts';

export interface ObjectPage {
  /** Ascending by the bytes of the key. */
  readonly objects: readonly ListedObject[];
  /** There are further ones behind the last of these. */
  readonly more: boolean;
}

/** Methods throw StoreError and nothing else. `signal` ends an operation early, as unreachable. */
export interface ObjectStore {
  /** The location in words, for messages. */
  readonly place: string;
  /** On stable storage when it returns; complete or absent, never partial. */
  put(key: string, body: Uint8Array, signal: AbortSignal): Promise<void>;
  /** From `offset` on, exactly as many bytes as `parts` holds. */
  read(key: string, offset: number, parts: Parts, signal: AbortSignal): Promise<void>;
  /** Exactly `length` bytes from `offset` on. */
  get(key: string, offset: number, length: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  /** Objects whose key begins with `prefix` and sorts after `after`; foreign ones are listed too. */
  list(prefix: string, after: string, limit: number, signal: AbortSignal): Promise<ObjectPage>;
  /** Missing keys are not an error. */
  remove(keys: readonly string[], signal: AbortSignal): Promise<void>;
  close(): void;
}

/** S3 allows 1024 bytes including the root; file names end at 255. */
export const KEY_BYTES_MAX = 512;

/**
 * Throws for a key that could leave the root, hide (a leading dot is kept for temporary files) or mean different things
 * to different stores.
 */
export function checkKey(key: string): void {
  const isPlain =
    key.length <= KEY_BYTES_MAX && key.split('/').every((part) => /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(part));
  if (!isPlain) throw new StoreError('denied', `${JSON.stringify(key.slice(0, 80))} is not a usable object key`);
}
