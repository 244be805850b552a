/**
 * The ordered key-value store that holds applied state: the shard's LMDB environment in the server, a sorted map in
 * tests. Keys compare as byte strings.
 */
export interface Tx {
  /** The value, or undefined. Valid until the next call on this object; copy what is kept. */
  get(key: Uint8Array): Uint8Array | undefined;
  /** Copies key and value before returning. */
  put(key: Uint8Array, value: Uint8Array): void;
  delete(key: Uint8Array): void;
  /**
   * Calls `visit` for keys in [start, end) in ascending order, or descending with `reverse` (same bounds), until it
   * returns false. Key and value are valid only during the call. `visit` must not write.
   */
  range(
    start: Uint8Array,
    end: Uint8Array,
    reverse: boolean,
    visit: (key: Uint8Array, value: Uint8Array) => boolean,
  ): void;
  /** As range() upwards, for keys alone: values are not read, nor checked. */
  keys(start: Uint8Array, end: Uint8Array, visit: (key: Uint8Array) => boolean): void;
}
