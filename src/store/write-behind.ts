/** The state as its readers see it: what is on disk, and above it the rows of a checkpoint that is being written. */
import { Overlay, type Pending, applyChanges } from '../base/overlay.ts';
import { planted } from '../base/planted.ts';
import type { Tx } from '../base/tx.ts';
import { SharedRows } from './shared-rows.ts';

/** Memory that rows which were written over may take besides. */
const WASTE_BYTES_MAX = 4 * 1024 * 1024;

export class WriteBehind implements Tx {
  readonly #base: Tx;
  #memory = new SharedRows();
  #pending: Overlay;
  /** Memory of the rows of a checkpoint that failed, when it was last gone through. */
  #keptBytes = 0;
  #collecting = false;

  constructor(base: Tx) {
    this.#base = base;
    this.#pending = new Overlay(base, this.#memory);
  }

  /** Rows that are written and not yet known to be on disk. */
  get pending(): Iterable<Pending> {
    return this.#pending.changes();
  }

  get hasPending(): boolean {
    return this.#pending.size > 0;
  }

  /** Holds the rows that `write` puts until clear(). */
  collect(write: () => void): void {
    if (this.hasPending) this.#giveBack();
    this.#collecting = true;
    if (planted('rows-written-over')) this.#memory.clear();
    try {
      write();
    } finally {
      this.#collecting = false;
    }
  }

  /** The last checkpoint failed, and so may many: memory of rows that were written over since is used no more. */
  #giveBack(): void {
    if (this.memoryBytes < 2 * this.#keptBytes + WASTE_BYTES_MAX) return;
    const rows = [...this.#pending.changes()];
    this.#memory = new SharedRows();
    this.#pending = new Overlay(this.#base, this.#memory);
    applyChanges(this.#pending, rows);
    this.#keptBytes = this.memoryBytes;
  }

  get memoryBytes(): number {
    return this.#memory.bytes;
  }

  /** The rows below have all of it. */
  clear(): void {
    this.#pending.flushed();
    this.#memory.clear();
    this.#keptBytes = 0;
  }

  get #top(): Tx {
    return this.#pending.size === 0 ? this.#base : this.#pending;
  }

  get(key: Uint8Array): Uint8Array | undefined {
    return this.#top.get(key);
  }

  put(key: Uint8Array, value: Uint8Array): void {
    if (this.#collecting) this.#pending.put(key, value);
    else this.#base.put(key, value);
  }

  delete(key: Uint8Array): void {
    if (this.#collecting) this.#pending.delete(key);
    else this.#base.delete(key);
  }

  range(
    start: Uint8Array,
    end: Uint8Array,
    reverse: boolean,
    visit: (key: Uint8Array, value: Uint8Array) => boolean,
  ): void {
    this.#top.range(start, end, reverse, visit);
  }

  keys(start: Uint8Array, end: Uint8Array, visit: (key: Uint8Array) => boolean): void {
    this.#top.keys(start, end, visit);
  }
}
