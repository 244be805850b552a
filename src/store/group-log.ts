/** One group's log, as raft reads it. All entries are on disk; the newest are in memory too. */
import { crc32c } from '@node-rs/crc32';
import { assert } from '../base/assert.ts';
import { viewOf } from '../base/bytes.ts';
import { planted } from '../base/planted.ts';
import type { Entry, EntryKind, LogReader } from '../raft/types.ts';
import { ENTRY_CHECKED_FROM, LOG_ENTRY } from './log-entry.ts';
import { LogDamage, readSpan } from './log-record.ts';
import type { LogPlace, SegmentRecord, Segment } from './segments.ts';

/** Charged per entry in addition to its data: its metadata in memory, and its header on disk. */
const ENTRY_COST_BYTES = 128;

export interface Stored {
  record: SegmentRecord;
  at: number;
  readonly term: number;
  readonly kind: EntryKind;
  readonly size: number;
  /** Data bytes of all entries before this one, from an arbitrary start. */
  readonly before: number;
  /** Undefined: on disk only. */
  entry: Entry | undefined;
}

/** An entry that is read back while loading, without its data. */
export interface LoadedEntry extends LogPlace {
  readonly index: number;
  readonly term: number;
  readonly kind: EntryKind;
  readonly size: number;
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
  /** While loading: what was found so far, by index, and the highest index of it. */
  #loading: Map<number, LoadedEntry> | undefined;
  #loadedLast = 0;
  #startsAnywhere = false;

  constructor(read: (stored: Stored, index: number) => Entry) {
    this.#read = read;
  }

  /** Starts after the applied state, empty; before entries are loaded. */
  startAt(snapshotIndex: number, snapshotTerm: number): void {
    this.#entries = [];
    this.#bytes = 0;
    this.#first = snapshotIndex + 1;
    this.#snapshotTerm = snapshotTerm;
    this.#loading = new Map();
    this.#loadedLast = snapshotIndex;
  }

  /** The applied state is not known: the log starts with the oldest entry behind which none is missing. */
  startAnywhere(): void {
    this.#startsAnywhere = true;
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

  /** Adds an entry; it replaces everything from its index on. */
  push({ record, at }: LogPlace, entry: Entry): void {
    const keep = entry.index - this.#first;
    assert(keep >= 0 && keep <= this.#entries.length, `entry ${entry.index} fits behind ${this.lastIndex()}`);
    const first = this.#entries[keep];
    if (first !== undefined) {
      this.#bytes = first.before;
      release(this.#entries.splice(keep));
    }
    this.#evicted = Math.min(this.#evicted, keep);
    this.#add({ record, at, term: entry.term, kind: entry.kind, size: entry.data.length, entry });
  }

  /**
   * Takes an entry that is read back. It replaces everything from its index on, as it did when it was written; a copy
   * replaces only the entry that it is a copy of, which may be gone.
   */
  load(loaded: LoadedEntry, isCopy: boolean): void {
    const found = this.#found();
    if (!isCopy) for (let index = loaded.index; index <= this.#loadedLast; index++) found.delete(index);
    this.#loadedLast = isCopy ? Math.max(this.#loadedLast, loaded.index) : loaded.index;
    // A checkpoint covers it, but it may have replaced others.
    if (loaded.index >= this.#first) found.set(loaded.index, loaded);
  }

  /** Everything is read back. Returns the index of an entry that is missing, if one is. */
  finishLoad(): number | undefined {
    const found = this.#found();
    if (this.#startsAnywhere) this.#startBehindGap(found);
    for (let index = this.#first; found.size > this.#entries.length; index++) {
      const loaded = found.get(index);
      if (loaded === undefined) return index;
      this.#add({ ...loaded, entry: undefined });
    }
    this.#loading = undefined;
    this.#evicted = this.#entries.length;
    return undefined;
  }

  /** Indexes of the entries that lie in `segment`. */
  indexesIn(segment: Segment): number[] {
    return this.#entries.flatMap((stored, i) => (stored.record.segment === segment ? [this.#first + i] : []));
  }

  stored(index: number): Stored | undefined {
    return this.#entries[index - this.#first];
  }

  /** The entry at `index` was copied to another place. */
  moved(index: number, { record, at }: LogPlace): void {
    const stored = this.#at(index);
    stored.record.release();
    record.hold();
    stored.record = record;
    stored.at = at;
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

  /** Restarts after an installed snapshot. */
  restartAt(snapshotIndex: number, snapshotTerm: number): void {
    this.#evicted = 0;
    release(this.#entries.splice(0));
    this.#first = snapshotIndex + 1;
    this.#snapshotTerm = snapshotTerm;
  }

  /** Drops entries up to `index`. */
  drop(index: number): void {
    if (index < this.#first) return;
    this.#snapshotTerm = this.term(index);
    const dropped = this.#entries.splice(0, index - this.#first + 1);
    this.#evicted = Math.max(0, this.#evicted - dropped.length);
    this.#first = index + 1;
    release(dropped);
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

  #add(stored: Omit<Stored, 'before'>): void {
    const { record, at, term, kind, size, entry } = stored;
    this.#entries.push({ record, at, term, kind, size, before: this.#bytes, entry });
    this.#bytes += size;
    record.hold();
  }

  #bytesFrom(position: number): number {
    const first = this.#entries[position];
    return first === undefined ? 0 : this.#bytes - first.before + (this.#entries.length - position) * ENTRY_COST_BYTES;
  }

  #startBehindGap(found: Map<number, LoadedEntry>): void {
    this.#first = this.#loadedLast + 1;
    while (found.has(this.#first - 1)) this.#first--;
    for (const index of found.keys()) if (index < this.#first) found.delete(index);
  }

  #found(): Map<number, LoadedEntry> {
    assert(this.#loading !== undefined, 'entries are loaded between startAt and finishLoad');
    return this.#loading;
  }

  #at(index: number): Stored {
    const stored = this.#entries[index - this.#first];
    assert(stored !== undefined, `log holds ${index} (first ${this.#first}, last ${this.lastIndex()})`);
    return stored;
  }
}

function release(entries: readonly Stored[]): void {
  for (const { record } of entries) record.release();
}

/** Reads an entry back and compares it with what is known of it. */
export function readStored(group: number, { record, at, term, kind, size }: Stored, index: number): Entry {
  const { file } = record.segment;
  const bytes = readSpan(file, record, at, LOG_ENTRY.size + size);
  const head = LOG_ENTRY.read(viewOf(bytes), 0);
  const isIt =
    head.group === group &&
    head.kind === kind &&
    head.dataBytes === size &&
    head.term === term &&
    head.index === index &&
    head.check === crc32c(bytes.subarray(ENTRY_CHECKED_FROM));
  if (!isIt)
    throw new LogDamage(`entry ${index} of group ${group} at byte ${at} of ${file.name} is not what was written`);
  const dataAt = planted('entry-read-back-wrong') ? 0 : LOG_ENTRY.size;
  return { index, term, kind, data: bytes.subarray(dataAt, dataAt + size) };
}
