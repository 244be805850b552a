/**
 * Lines that come again and again, from a stranger that knocks or a page that polls: the first are written as they
 * come, the others are counted, and once in an interval a line says how many there were. So neither a flood nor a
 * patient poller fills the disk.
 */
import type { AuditEntry } from './entry.ts';

export interface RepeatBounds {
  /** Written of one key in an interval, before they are counted. */
  readonly written: number;
  /** Keys in an interval; all others are counted together. */
  readonly keys: number;
}

interface Counted {
  readonly entry: AuditEntry;
  count: number;
}

const SEVERAL = 'several';

export class Repeats {
  readonly #bounds: RepeatBounds;
  readonly #counted = new Map<string, Counted>();
  #others: Counted | undefined;

  constructor(bounds: RepeatBounds) {
    this.#bounds = bounds;
  }

  /** Returns whether the line is to be written. The first `entry` of a key is the line that counts the others. */
  take(key: string, entry: AuditEntry): boolean {
    const known = this.#counted.get(key);
    if (known === undefined && this.#counted.size >= this.#bounds.keys) {
      const { event } = entry;
      this.#others ??= { entry: { event, who: SEVERAL, from: SEVERAL, what: SEVERAL }, count: 0 };
      this.#others.count++;
      return false;
    }
    const counted = known ?? { entry, count: 0 };
    if (known === undefined) this.#counted.set(key, counted);
    return ++counted.count <= this.#bounds.written;
  }

  /** The interval has ended: the lines that say how many were not written. */
  drain(): AuditEntry[] {
    const { written } = this.#bounds;
    const lines = [...this.#counted.values()].flatMap(({ entry, count }) =>
      count > written ? [{ ...entry, repeated: count - written }] : [],
    );
    if (this.#others !== undefined) lines.push({ ...this.#others.entry, repeated: this.#others.count });
    this.#counted.clear();
    this.#others = undefined;
    return lines;
  }
}
