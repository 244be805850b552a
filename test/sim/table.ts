/** One table of a simulated disk: sorted rows with an undo list, so that everything since the last sync can be lost. */
import { SortedRows } from '../support/sorted-rows.ts';

export type OnChange = (key: string, before: Uint8Array | undefined, after: Uint8Array | undefined) => void;

export class Table {
  readonly #rows = new SortedRows();
  readonly #rotten = new Map<string, Uint8Array>();
  #undo: { readonly key: string; readonly before: Uint8Array | undefined }[] = [];
  readonly #onChange: OnChange | undefined;

  constructor(onChange?: OnChange) {
    this.#onChange = onChange;
  }

  get(key: string): Uint8Array | undefined {
    return this.#rows.get(key);
  }

  /** As a process reads it: what rotted is not what was written. */
  read(key: string): Uint8Array | undefined {
    return this.#rotten.get(key) ?? this.#rows.get(key);
  }

  /** A bit of the platter flips, until the row is written again. */
  flipBit(key: string, at: number, bit: number): void {
    const value = this.read(key)?.slice();
    if (value === undefined) return;
    value[at] = (value[at] ?? 0) ^ (1 << bit);
    this.#rotten.set(key, value);
  }

  /** Keys of rows that are not what was written. */
  get rotten(): string[] {
    return [...this.#rotten.keys()];
  }

  /** `value` is kept as it is: the caller hands it over. Undefined deletes. */
  set(key: string, value: Uint8Array | undefined): void {
    this.#undo.push({ key, before: this.#rows.get(key) });
    this.#write(key, value);
  }

  /** Keys in [start, end), ascending. */
  keys(start: string, end: string): string[] {
    return this.#rows.keys(start, end);
  }

  allKeys(): string[] {
    return this.#rows.allKeys();
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
    this.#rows.set(key, value);
    this.#rotten.delete(key);
  }
}
