import { assert } from '../base/assert.ts';
import { planted } from '../base/planted.ts';
import { type Entry, ENTRY_OVERHEAD_BYTES, type LogReader } from './types.ts';

/** Bytes charged for one entry against limits. */
export function entryBytes(entry: Entry): number {
  return entry.data.length + ENTRY_OVERHEAD_BYTES;
}

/** Term changes kept in memory; the reader is asked for older ones. Elections are rare, so 64 cover a long time. */
const TERM_RUNS_MAX = 64;

/**
 * The log of one node: a stored prefix (read through the host) and an in-memory tail.
 *
 *   snapshotIndex | ............ stored ............ | stable        handed       last
 *                          delivered   commit        |  in flight to disk | not yet handed out
 *
 * The tail holds every entry that is not both durable and delivered, so the usual path (append, persist, commit,
 * apply) never reads the disk. Terms of recent entries are kept as runs for the same reason.
 */
export class RaftLog {
  readonly reader: LogReader;
  /** Last compacted entry; it stands for everything before it. */
  snapshotIndex: number;
  snapshotTerm: number;
  last: number;
  lastTerm: number;
  commit: number;
  /** Durable up to here. */
  stable: number;
  /** Handed out for persisting up to here. */
  handed: number;
  /** Handed out for applying up to here. */
  delivered: number;
  /** The host wants nothing behind it. */
  heldAt = Infinity;

  /** Entries tailFirst .. last. */
  #tail: Entry[] = [];
  #tailFirst: number;
  /** Ascending: from #runStart[k] to the next start, entries have term #runTerm[k]. */
  #runStart: number[];
  #runTerm: number[];

  constructor(reader: LogReader, snapshotIndex: number, snapshotTerm: number, commit: number, applied: number) {
    this.reader = reader;
    this.snapshotIndex = snapshotIndex;
    this.snapshotTerm = snapshotTerm;
    assert(
      reader.firstIndex() === snapshotIndex + 1,
      `log starts at ${reader.firstIndex()}, snapshot ${snapshotIndex}`,
    );
    this.last = Math.max(reader.lastIndex(), snapshotIndex);
    this.lastTerm = this.last === snapshotIndex ? snapshotTerm : reader.term(this.last);
    assert(applied >= snapshotIndex, `applied ${applied} below the snapshot ${snapshotIndex}: entries are missing`);
    assert(applied <= this.last, `applied ${applied} beyond the log's end ${this.last}: the log lost entries`);
    // The commit marker is written lazily, so it may be behind what was applied; §3.3 treats it as volatile state.
    this.commit = Math.max(applied, Math.min(commit, this.last));
    this.stable = this.last;
    this.handed = this.last;
    this.delivered = applied;
    this.#tailFirst = this.last + 1;
    this.#runStart = [this.last];
    this.#runTerm = [this.lastTerm];
  }

  /** Term of an entry, or -1 when the log does not know it (compacted, or beyond the end). */
  term(index: number): number {
    if (index > this.last || index < this.snapshotIndex) return -1;
    for (let run = this.#runStart.length - 1; run >= 0; run -= 1) {
      if (index >= this.#runStart[run]!) return this.#runTerm[run]!;
    }
    return index === this.snapshotIndex ? this.snapshotTerm : this.reader.term(index);
  }

  matches(index: number, term: number): boolean {
    return index <= this.last && index >= this.snapshotIndex && this.term(index) === term;
  }

  /** Whether a log that ends with (index, term) is at least as up to date as this one (§3.6.1). */
  isUpToDate(index: number, term: number): boolean {
    if (planted('any-log-may-lead')) return true;
    return term > this.lastTerm || (term === this.lastTerm && index >= this.last);
  }

  append(entry: Entry): void {
    if (entry.index !== this.last + 1 || entry.term < this.lastTerm) {
      assert(false, `append of ${entry.index}/${entry.term} after ${this.last}/${this.lastTerm}`);
    }
    this.#tail.push(entry);
    this.last = entry.index;
    if (entry.term !== this.lastTerm) this.#startRun(entry.index, entry.term);
  }

  /** Drops everything from `index` on. The caller answers clients whose writes were in flight. */
  truncate(index: number): void {
    // Invariant 3.
    assert(index > this.commit, `truncation at ${index}, committed up to ${this.commit}: two leaders disagreed`);
    this.last = index - 1;
    if (this.#tailFirst <= this.last) this.#tail.length = this.last - this.#tailFirst + 1;
    else {
      this.#tail = [];
      this.#tailFirst = index;
    }
    this.stable = Math.min(this.stable, this.last);
    this.handed = Math.min(this.handed, this.last);
    while (this.#runStart.length > 0 && this.#runStart[this.#runStart.length - 1]! >= index) {
      this.#runStart.pop();
      this.#runTerm.pop();
    }
    if (this.#runStart.length === 0) {
      const term = this.last === this.snapshotIndex ? this.snapshotTerm : this.reader.term(this.last);
      this.#runStart.push(this.last);
      this.#runTerm.push(term);
    }
    this.lastTerm = this.#runTerm[this.#runTerm.length - 1]!;
  }

  commitTo(index: number): void {
    if (index > this.last) assert(false, `commit of ${index} beyond the log's end ${this.last}`);
    if (index > this.commit) this.commit = index;
  }

  /** Everything up to `index` is durable (invariant 2). */
  stableTo(index: number): void {
    if (index > this.handed) assert(false, `durable ${index} beyond what was handed out (${this.handed})`);
    if (index > this.stable) this.stable = index;
    this.#release();
  }

  /** Entries not yet handed out for persisting; marks them handed. */
  takeUnhanded(): readonly Entry[] {
    const entries = this.#tail.slice(this.handed + 1 - this.#tailFirst);
    this.handed = this.last;
    return entries;
  }

  /** Some entry is committed, durable and not yet delivered. */
  hasDeliverable(): boolean {
    return this.delivered < Math.min(this.commit, this.stable, this.heldAt);
  }

  /** Next entries to apply, at most maxBytes (at least one); marks them delivered. */
  takeDeliverable(maxBytes: number): readonly Entry[] {
    const end = Math.min(this.commit, this.stable, this.heldAt);
    const from = this.delivered + 1;
    let entries: Entry[];
    if (from >= this.#tailFirst) {
      const start = from - this.#tailFirst;
      const stop = cut(this.#tail, start, end - this.#tailFirst + 1, maxBytes);
      entries = start === 0 && stop === this.#tail.length ? this.#tail : this.#tail.slice(start, stop);
    } else {
      entries = this.reader.entries(from, Math.min(end + 1, this.#tailFirst), maxBytes);
      assert(entries.length > 0 && entries[0]!.index === from, `stored log has no entry ${from}`);
    }
    this.delivered += entries.length;
    this.#release();
    return entries;
  }

  /** The applied state is another one, which ends at `index`: what follows is delivered (again). */
  deliverFrom(index: number): void {
    assert(index >= this.snapshotIndex && index <= this.stable, `entry ${index} is in the log, and what follows it`);
    this.delivered = index;
    this.#release();
  }

  /** Entries from `from` on for replication, at most maxBytes (at least one). Empty when from > last. */
  entriesFrom(from: number, maxBytes: number): readonly Entry[] {
    if (from > this.last) return [];
    assert(from > this.snapshotIndex, `entry ${from} is compacted (${this.snapshotIndex})`);
    if (from < this.#tailFirst) {
      const stored = this.reader.entries(from, this.#tailFirst, maxBytes);
      const stop = cut(stored, 0, stored.length, maxBytes);
      return stop === stored.length ? stored : stored.slice(0, stop);
    }
    const start = from - this.#tailFirst;
    return this.#tail.slice(start, cut(this.#tail, start, this.#tail.length, maxBytes));
  }

  /**
   * Largest index <= `index` whose term is <= `term`: no entry above it can agree with a log whose entry at `index`
   * has `term`, because terms never decrease along a log. One round trip skips a whole term (§3.5).
   */
  lastIndexNotAfterTerm(index: number, term: number): number {
    let at = Math.min(index, this.last);
    while (at > this.snapshotIndex && this.term(at) > term) at -= 1;
    return at;
  }

  /** The host compacted the stored log up to and including `index`. */
  compactTo(index: number): void {
    if (index <= this.snapshotIndex) return;
    assert(index <= this.delivered, `compaction up to ${index}, delivered only ${this.delivered}`);
    this.snapshotTerm = this.term(index);
    this.snapshotIndex = index;
  }

  /** A snapshot replaces the whole log. The host installs it before it persists anything after it. */
  restore(index: number, term: number): void {
    assert(index > this.commit, `snapshot at ${index} would take back commit ${this.commit}`);
    this.snapshotIndex = index;
    this.snapshotTerm = term;
    this.last = index;
    this.lastTerm = term;
    this.commit = index;
    this.stable = index;
    this.handed = index;
    this.delivered = index;
    this.#tail = [];
    this.#tailFirst = index + 1;
    this.#runStart = [index];
    this.#runTerm = [term];
  }

  #startRun(index: number, term: number): void {
    this.lastTerm = term;
    this.#runStart.push(index);
    this.#runTerm.push(term);
    if (this.#runStart.length > TERM_RUNS_MAX) {
      this.#runStart.shift();
      this.#runTerm.shift();
    }
  }

  /** Releases tail entries that are durable and delivered. */
  #release(): void {
    const upTo = Math.min(this.stable, this.delivered);
    if (upTo < this.#tailFirst) return;
    // A new array rather than a cleared one, because the old one may just have been handed out.
    this.#tail = upTo === this.last ? [] : this.#tail.slice(upTo + 1 - this.#tailFirst);
    this.#tailFirst = upTo + 1;
  }
}

/** End of the longest range [start, stop) that fits maxBytes; at least one entry. */
function cut(entries: readonly Entry[], start: number, stop: number, maxBytes: number): number {
  let bytes = 0;
  for (let at = start; at < stop; at += 1) {
    bytes += entryBytes(entries[at]!);
    if (bytes > maxBytes && at > start) return at;
  }
  return stop;
}
