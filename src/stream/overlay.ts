/**
 * A write overlay for the rows that are rarely written (attributes, expiry index, garbage marks): reads see pending
 * writes, the store sees them at the next flush. The hot rows (heads, data, producers, buckets) have typed caches instead.
 */
import { compareBytes } from './keys.ts';
import type { Tx } from './tx.ts';

/** Bytes as a string of char codes: a Map key with the same order as the bytes. */
function text(key: Uint8Array): string {
  let out = '';
  for (const byte of key) out += String.fromCharCode(byte);
  return out;
}

interface Pending {
  readonly key: Uint8Array;
  /** undefined = deleted. */
  readonly value: Uint8Array | undefined;
}

export class Overlay implements Tx {
  readonly #base: Tx;
  readonly #pending = new Map<string, Pending>();

  constructor(base: Tx) {
    this.#base = base;
  }

  get size(): number {
    return this.#pending.size;
  }

  get(key: Uint8Array): Uint8Array | undefined {
    if (this.#pending.size === 0) return this.#base.get(key);
    const pending = this.#pending.get(text(key));
    return pending === undefined ? this.#base.get(key) : pending.value;
  }

  put(key: Uint8Array, value: Uint8Array): void {
    this.#pending.set(text(key), { key: key.slice(), value: value.slice() });
  }

  delete(key: Uint8Array): void {
    this.#pending.set(text(key), { key: key.slice(), value: undefined });
  }

  range(
    start: Uint8Array,
    end: Uint8Array,
    reverse: boolean,
    visit: (key: Uint8Array, value: Uint8Array) => boolean,
  ): void {
    const inside = [...this.#pending.values()]
      .filter((pending) => compareBytes(pending.key, start) >= 0 && compareBytes(pending.key, end) < 0)
      .sort((a, b) => (reverse ? compareBytes(b.key, a.key) : compareBytes(a.key, b.key)));
    let next = 0;
    let going = true;
    const direction = reverse ? -1 : 1;
    const visitPending = (): void => {
      const pending = inside[next++] as Pending;
      if (pending.value !== undefined) going = visit(pending.key, pending.value);
    };
    this.#base.range(start, end, reverse, (key, value) => {
      while (going && next < inside.length && direction * compareBytes((inside[next] as Pending).key, key) < 0) {
        visitPending();
      }
      if (!going) return false;
      if (next < inside.length && compareBytes((inside[next] as Pending).key, key) === 0) visitPending();
      else going = visit(key, value);
      return going;
    });
    while (going && next < inside.length) visitPending();
  }

  flush(): void {
    for (const { key, value } of this.#pending.values()) {
      if (value === undefined) this.#base.delete(key);
      else this.#base.put(key, value);
    }
  }

  /** The commit of the last flush() is done. */
  flushed(): void {
    this.#pending.clear();
  }
}
