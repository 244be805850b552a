/**
 * Lines that come again and again, from a stranger that knocks or a page that polls: the first are written as they
 * come, the others are counted, and once in an interval a line says how many there were. So neither a flood nor a
 * patient poller fills the disk.
 */
import type { AuditEntry } from './entry.ts';

export interface RepeatBounds {
  /** Written of one key in an interval, before they are counted. */
  readonly written: number;
  /** Keys in an interval. */
  readonly keys: number;
}

interface Counted {
  readonly entry: AuditEntry;
  count: number;
}

/** One way to tell lines apart. An account takes another key while it has fewer than are free, so others find some. */
class Counts {
  readonly #bounds: RepeatBounds;
  readonly #counted = new Map<string, Counted>();
  /** Keys of each account. */
  readonly #held = new Map<string, number>();

  constructor(bounds: RepeatBounds) {
    this.#bounds = bounds;
  }

  /** Whether the line is to be written; undefined: there is no room to count it. */
  take(key: string, entry: AuditEntry, account: string): boolean | undefined {
    const { keys, written } = this.#bounds;
    let counted = this.#counted.get(key);
    if (counted === undefined) {
      const held = this.#held.get(account) ?? 0;
      if (held >= keys - this.#counted.size) return undefined;
      this.#held.set(account, held + 1);
      counted = { entry, count: 0 };
      this.#counted.set(key, counted);
    }
    return ++counted.count <= written;
  }

  drain(): AuditEntry[] {
    const { written } = this.#bounds;
    const lines = [...this.#counted.values()].flatMap(({ entry, count }) =>
      count > written ? [{ ...entry, repeated: count - written }] : [],
    );
    this.#counted.clear();
    this.#held.clear();
    return lines;
  }
}

const SEVERAL = 'several';

/**
 * Lines without room among the keys are told apart by sender and route alone, one of each is written, and those without
 * room there by their event: a sender of very many names or paths hides neither others nor what else it does.
 */
export class Repeats {
  readonly #each: Counts;
  readonly #alike: Counts;
  /** There are few events. */
  readonly #others = new Counts({ written: 0, keys: Infinity });

  constructor({ written, keys }: RepeatBounds) {
    this.#each = new Counts({ written, keys });
    this.#alike = new Counts({ written: 1, keys });
  }

  /**
   * Returns whether the line is to be written. The first `entry` of a key is the line that counts the others. `account`:
   * whose tokens share in the keys.
   */
  take(key: string, entry: AuditEntry, account: string): boolean {
    const isWritten = this.#each.take(key, entry, account);
    if (isWritten !== undefined) return isWritten;
    const { event, plane, who, what } = entry;
    const place = plane === undefined ? { event } : { event, plane };
    const alike = { ...place, who, from: SEVERAL, what };
    const others = { ...place, who: SEVERAL, from: SEVERAL, what: SEVERAL };
    const isFirst = this.#alike.take(JSON.stringify([event, who, what]), alike, account);
    return isFirst ?? this.#others.take(event, others, account) ?? false;
  }

  /** The interval has ended: the lines that say how many were not written. */
  drain(): AuditEntry[] {
    return [this.#each, this.#alike, this.#others].flatMap((counts) => counts.drain());
  }
}
