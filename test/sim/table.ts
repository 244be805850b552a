/** One table of a simulated disk: sorted rows with an undo list, so that everything since the last sync can be lost. */
import { Buffer } from 'node:buffer';

/** Bytes as a string of char codes: string order is byte order. */
export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

export type OnChange = (key: string, before: Uint8Array | undefined, after: Uint8Array | undefined) => void;

export class Table {
  readonly #rows = new Map<string, Uint8Array>();
  readonly #keys: string[] = [];
  #undo: { readonly key: string; readonly before: Uint8Array | undefined }[] = [];
  readonly #onChange: OnChange | undefined;

  constructor(onChange?: OnChange) {
    this.#onChange = onChange;
  }

  get(key: string): Uint8Array | undefined {
    return this.#rows.get(key);
  }

  /** `value` is kept as it is: the caller hands it over. Undefined deletes. */
  set(key: string, value: Uint8Array | undefined): void {
    this.#undo.push({ key, before: this.#rows.get(key) });
    this.#write(key, value);
  }

  /** Keys in [start, end), ascending. */
  keys(start: string, end: string): string[] {
    const from = this.#lowerBound(start);
    return this.#keys.slice(from, Math.max(from, this.#lowerBound(end)));
  }

  allKeys(): string[] {
    return [...this.#keys];
  }

  /** To be handed to rollback(). */
  get mark(): number {
    return this.#undo.length;
  }

  rollback(mark: number): void {
    while (this.#undo.length > mark) {
      const { key, before } = this.#undo.pop() as { key: string; before: Uint8Array | undefined };
      this.#write(key, before);
    }
  }

  /** Everything is on the platter: there is no way back. */
  sync(): void {
    this.#undo = [];
  }

  #write(key: string, value: Uint8Array | undefined): void {
    this.#onChange?.(key, this.#rows.get(key), value);
    const at = this.#lowerBound(key);
    const known = this.#keys[at] === key;
    if (value === undefined) {
      if (known) this.#keys.splice(at, 1);
      this.#rows.delete(key);
    } else {
      if (!known) this.#keys.splice(at, 0, key);
      this.#rows.set(key, value);
    }
  }

  #lowerBound(key: string): number {
    let low = 0;
    let high = this.#keys.length;
    // Log records come at the end: look there first.
    if (high > 0 && (this.#keys[high - 1] as string) < key) return high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#keys[middle] as string) < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
