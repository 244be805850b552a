/** One table of a simulated disk: sorted rows with an undo list, so that everything since the last sync can be lost. */
import { SortedRows } from '../support/sorted-rows.ts';

export type OnChange = (key: string, before: Uint8Array | undefined, after: Uint8Array | undefined) => void;

export class Table {
  readonly #rows = new SortedRows();
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
  }
}
