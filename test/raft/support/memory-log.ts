import { assert } from '../../../src/base/assert.ts';
import type { Entry, LogReader } from '../../../src/raft/types.ts';

/** The disk of a test node: the simplest thing that keeps the promise of LogReader. */
export class MemoryLog implements LogReader {
  snapshotIndex = 0;
  snapshotTerm = 0;
  stored: Entry[] = [];

  firstIndex(): number {
    return this.snapshotIndex + 1;
  }

  lastIndex(): number {
    return this.snapshotIndex + this.stored.length;
  }

  term(index: number): number {
    if (index === this.snapshotIndex) return this.snapshotTerm;
    const entry = this.stored[index - this.snapshotIndex - 1];
    assert(entry !== undefined, `no stored entry ${index}`);
    return entry.term;
  }

  entries(lo: number, hi: number, maxBytes: number): Entry[] {
    const from = lo - this.snapshotIndex - 1;
    assert(from >= 0 && hi <= this.lastIndex() + 1, `stored entries [${lo}, ${hi})`);
    const found: Entry[] = [];
    let bytes = 0;
    for (const entry of this.stored.slice(from, hi - this.snapshotIndex - 1)) {
      bytes += entry.data.length;
      if (bytes > maxBytes && found.length > 0) break;
      found.push(entry);
    }
    return found;
  }

  write(entries: readonly Entry[]): void {
    const first = entries[0];
    if (first === undefined) return;
    assert(first.index <= this.lastIndex() + 1, `a hole before ${first.index}`);
    this.stored.length = first.index - this.snapshotIndex - 1;
    this.stored.push(...entries);
  }

  compact(index: number): void {
    if (index <= this.snapshotIndex) return;
    this.snapshotTerm = this.term(index);
    this.stored.splice(0, index - this.snapshotIndex);
    this.snapshotIndex = index;
  }

  install(index: number, term: number): void {
    this.stored = [];
    this.snapshotIndex = index;
    this.snapshotTerm = term;
  }
}
