// Rows in the order of their keys, as simple as that can be: a map and a sorted list.

/** Bytes as a string of char codes: string order is byte order. */
export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

export class SortedRows {
  readonly #rows = new Map<string, Uint8Array>();
  readonly #keys: string[] = [];

  get size(): number {
    return this.#keys.length;
  }

  get(key: string): Uint8Array | undefined {
    return this.#rows.get(key);
  }

  /** `value` is kept as it is: the caller hands it over. Undefined deletes. */
  set(key: string, value: Uint8Array | undefined): void {
    const isKnown = this.#rows.has(key);
    if (value === undefined) this.#rows.delete(key);
    else this.#rows.set(key, value);
    if (isKnown === (value !== undefined)) return;
    const at = this.#lowerBound(key);
    if (isKnown) this.#keys.splice(at, 1);
    else this.#keys.splice(at, 0, key);
  }

  /** Keys in [start, end), ascending. */
  keys(start: string, end: string): string[] {
    const from = this.#lowerBound(start);
    return this.#keys.slice(from, Math.max(from, this.#lowerBound(end)));
  }

  allKeys(): string[] {
    return [...this.#keys];
  }

  #lowerBound(key: string): number {
    let low = 0;
    let high = this.#keys.length;
    // Most new keys come at the end: look there first.
    if (high > 0 && (this.#keys[high - 1] as string) < key) return high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#keys[middle] as string) < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
