/** One group's log, as raft reads it. All entries are on disk; the newest are in memory too. */
import { assert } from '../base/assert.ts';
import type { Entry, EntryKind, LogReader } from '../raft/types.ts';

const NO_TURNS: readonly number[] = [];
/** Charged per entry in addition to its data: its metadata in memory, and its header on disk. */
const ENTRY_COST_BYTES = 128;

export interface Stored {
  readonly turn: number;
  /** Its position in the turn's record. */
  readonly at: number;
  readonly term: number;
  readonly kind: EntryKind;
  readonly size: number;
  /** Data bytes of all entries before this one, from an arbitrary start. */
  readonly before: number;
  /** Undefined: on disk only. */
  entry: Entry | undefined;
}

export class GroupLog implements LogReader {
  readonly #read: (stored: Stored, index: number) => Entry;
  #entries: Stored[] = [];
  /** Number of entries at the beginning that are on disk only. */
  #evicted = 0;
  #first = 1;
  #snapshotTerm = 0;
  /** `before` of the next entry. */
  #bytes = 0;

  constructor(read: (stored: Stored, index: number) => Entry) {
    this.#read = read;
  }

  /** Starts after the applied state; called once, before entries are loaded. */
  startAt(snapshotIndex: number, snapshotTerm: number): void {
    assert(this.#entries.length === 0, 'a log starts empty');
    this.#first = snapshotIndex + 1;
    this.#snapshotTerm = snapshotTerm;
  }

  firstIndex(): number {
    return this.#first;
  }

  lastIndex(): number {
    return this.#first + this.#entries.length - 1;
  }

  term(index: number): number {
    if (index === this.#first - 1) return this.#snapshotTerm;
    return this.#at(index).term;
  }

  entries(lo: number, hi: number, maxBytes: number): Entry[] {
    const out: Entry[] = [];
    let bytes = 0;
    for (let index = lo; index < hi; index++) {
      const stored = this.#at(index);
      bytes += stored.size;
      if (out.length > 0 && bytes > maxBytes) break;
      out.push(stored.entry ?? this.#read(stored, index));
    }
    return out;
  }

  /** Adds an entry at `at` in the record of `turn`; returns the turns of entries that it replaces. */
  push(turn: number, at: number, entry: Entry): readonly number[] {
    const keep = entry.index - this.#first;
    assert(keep >= 0 && keep <= this.#entries.length, `entry ${entry.index} fits behind ${this.lastIndex()}`);
    const first = this.#entries[keep];
    if (first !== undefined) this.#bytes = first.before;
    const replaced = first === undefined ? NO_TURNS : this.#turns(this.#entries.splice(keep));
    this.#evicted = Math.min(this.#evicted, keep);
    const { term, kind, data } = entry;
    this.#entries.push({ turn, at, term, kind, size: data.length, before: this.#bytes, entry });
    this.#bytes += data.length;
    return replaced;
  }

  /**
   * Adds an entry read back from disk; returns the turns of entries that it replaces, or undefined when it is void
   * itself.
   */
  load(turn: number, at: number, entry: Entry): readonly number[] | undefined {
    const keep = entry.index - this.#first;
    if (keep > this.#entries.length) return undefined;
    return keep < 0 ? this.cut() : this.push(turn, at, entry);
  }

  /** The greatest index up to `index` after which entries of `keepBytes` remain; 0 when there are fewer. */
  compactable(index: number, keepBytes: number): number {
    const upTo = this.#bytes - keepBytes;
    let low = 0;
    let high = Math.min(this.#entries.length, index - this.#first + 1);
    // Entries [0, low) begin early enough. A binary search, because busy logs are checked many times a second.
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#entries[middle] as Stored).before < upTo) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? 0 : this.#first + low - 1;
  }

  /** Restarts after an installed snapshot; returns the turns of all entries. */
  restartAt(snapshotIndex: number, snapshotTerm: number): readonly number[] {
    const dropped = this.cut();
    this.#first = snapshotIndex + 1;
    this.#snapshotTerm = snapshotTerm;
    return dropped;
  }

  /** Drops what was read back so far; returns the turns of those entries. */
  cut(): readonly number[] {
    this.#evicted = 0;
    return this.#turns(this.#entries.splice(0));
  }

  /** Drops entries up to `index`; returns their turns. */
  drop(index: number): readonly number[] {
    if (index < this.#first) return [];
    this.#snapshotTerm = this.term(index);
    const dropped = this.#entries.splice(0, index - this.#first + 1);
    this.#evicted = Math.max(0, this.#evicted - dropped.length);
    this.#first = index + 1;
    return this.#turns(dropped);
  }

  /** Bytes of entries whose data is in memory. */
  get memoryBytes(): number {
    return this.#bytesFrom(this.#evicted);
  }

  /** Bytes on disk of the entries after `index`. */
  bytesBehind(index: number): number {
    return this.#bytesFrom(Math.max(0, index + 1 - this.#first));
  }

  /** Releases the data of the oldest entries until `bytes` are left in memory. */
  evict(bytes: number, which: 'keep newest' | 'all'): void {
    const end = which === 'all' ? this.#entries.length : this.#entries.length - 1;
    while (this.#evicted < end && this.memoryBytes > bytes)
      (this.#entries[this.#evicted++] as Stored).entry = undefined;
  }

  #bytesFrom(position: number): number {
    const first = this.#entries[position];
    return first === undefined ? 0 : this.#bytes - first.before + (this.#entries.length - position) * ENTRY_COST_BYTES;
  }

  #turns(entries: readonly Stored[]): readonly number[] {
    return entries.map(({ turn }) => turn);
  }

  #at(index: number): Stored {
    const stored = this.#entries[index - this.#first];
    assert(stored !== undefined, `log holds ${index} (first ${this.#first}, last ${this.lastIndex()})`);
    return stored;
  }
}
