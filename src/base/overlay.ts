/**
 * Writes that the rows below do not have yet: reads see both. The state machine keeps its rarely written rows in one
 * until a checkpoint, and the store keeps a checkpoint in one until it is on disk.
 */
import { byteAt, compareBytes } from './bytes.ts';
import { Slab } from './slab.ts';
import type { Tx } from './tx.ts';

function tagOf(key: Uint8Array): number {
  return byteAt(key, TAG_AT);
}

/** Bytes as a string of char codes: a Map key that sorts like the bytes. */
function text(key: Uint8Array): string {
  return Reflect.apply(String.fromCharCode, undefined, key) as string;
}

export interface Pending {
  readonly key: Uint8Array;
  /** undefined = deleted. */
  readonly value: Uint8Array | undefined;
}

/** Holds the rows until flushed(). */
export interface RowMemory {
  copy(bytes: Uint8Array): Uint8Array;
}

/**
 * Keys begin with prefix u16, tag u8 and usually an incarnation u48 (stream/core/keys.ts),
 * so keys that are read together are stored together.
 */
const TAG_AT = 2;
const FRONT_BYTES = 9;

type Shelf = Map<string, Pending>;
type Visit = (key: Uint8Array, value: Uint8Array) => boolean;

const NOTHING = new Uint8Array(0);

export function applyChanges(tx: Tx, changes: Iterable<Pending>): void {
  for (const { key, value } of changes) {
    if (value === undefined) tx.delete(key);
    else tx.put(key, value);
  }
}

/**
 * Visits sorted changes and the rows below them in the order of their keys, until a visit returns false. A change takes
 * the place of the row that has its key.
 */
export function walkMerged<T extends { readonly key: Uint8Array }>(
  changes: readonly T[],
  direction: 1 | -1,
  eachRow: (visit: Visit) => void,
  onChange: (change: T) => boolean,
  onRow: Visit,
): void {
  let next = 0;
  let going = true;
  eachRow((key, value) => {
    for (let change; going && (change = changes[next]) !== undefined; next++) {
      const order = direction * compareBytes(change.key, key);
      if (order > 0) break;
      going = onChange(change);
      if (order < 0) continue;
      next++;
      return going;
    }
    return going && (going = onRow(key, value));
  });
  for (let change; going && (change = changes[next++]) !== undefined;) going = onChange(change);
}

export class Overlay implements Tx {
  readonly #base: Tx;
  /** Grouped by tag, then by the front of the key, so that a range over one stream's rows examines only that stream. */
  readonly #tags = new Map<number, Map<string, Shelf>>();
  readonly #memory: RowMemory;
  #size = 0;

  constructor(base: Tx, memory: RowMemory = new Slab()) {
    this.#base = base;
    this.#memory = memory;
  }

  get size(): number {
    return this.#size;
  }

  get(key: Uint8Array): Uint8Array | undefined {
    const fronts = this.#tags.get(tagOf(key));
    if (fronts === undefined) return this.#base.get(key);
    const name = text(key);
    const pending = fronts.get(name.slice(0, FRONT_BYTES))?.get(name);
    return pending === undefined ? this.#base.get(key) : pending.value;
  }

  put(key: Uint8Array, value: Uint8Array): void {
    this.#set({ key: this.#memory.copy(key), value: this.#memory.copy(value) });
  }

  delete(key: Uint8Array): void {
    this.#set({ key: this.#memory.copy(key), value: undefined });
  }

  #set(pending: Pending): void {
    const tag = tagOf(pending.key);
    const name = text(pending.key);
    const front = name.slice(0, FRONT_BYTES);
    let fronts = this.#tags.get(tag);
    if (fronts === undefined) this.#tags.set(tag, (fronts = new Map()));
    let shelf = fronts.get(front);
    if (shelf === undefined) fronts.set(front, (shelf = new Map()));
    if (!shelf.has(name)) this.#size++;
    shelf.set(name, pending);
  }

  /** Start and end have the same tag; the end may be the first key after it. */
  range(start: Uint8Array, end: Uint8Array, reverse: boolean, visit: Visit): void {
    this.#merge(start, end, reverse, visit, (each) => this.#base.range(start, end, reverse, each));
  }

  keys(start: Uint8Array, end: Uint8Array, visit: (key: Uint8Array) => boolean): void {
    this.#merge(start, end, false, visit, (each) => this.#base.keys(start, end, (key) => each(key, NOTHING)));
  }

  #merge(start: Uint8Array, end: Uint8Array, reverse: boolean, visit: Visit, eachBelow: (visit: Visit) => void): void {
    const inside = this.#inside(start, end);
    inside.sort((a, b) => (reverse ? compareBytes(b.key, a.key) : compareBytes(a.key, b.key)));
    const visitPending = ({ key, value }: Pending): boolean => value === undefined || visit(key, value);
    walkMerged(inside, reverse ? -1 : 1, eachBelow, visitPending, visit);
  }

  #inside(start: Uint8Array, end: Uint8Array): Pending[] {
    const fronts = this.#tags.get(tagOf(start));
    if (fronts === undefined) return [];
    const front = text(start.subarray(0, FRONT_BYTES));
    const one = front.length === FRONT_BYTES && front === text(end.subarray(0, FRONT_BYTES));
    const inside: Pending[] = [];
    for (const shelf of one ? [fronts.get(front)] : fronts.values()) {
      for (const pending of shelf?.values() ?? []) {
        if (compareBytes(pending.key, start) >= 0 && compareBytes(pending.key, end) < 0) inside.push(pending);
      }
    }
    return inside;
  }

  /** Every pending write, in no particular order; an undefined value marks a deletion. */
  *changes(): IterableIterator<Pending> {
    for (const fronts of this.#tags.values()) for (const shelf of fronts.values()) yield* shelf.values();
  }

  flush(): void {
    applyChanges(this.#base, this.changes());
  }

  /** The commit of the last flush() is done. */
  flushed(): void {
    this.#tags.clear();
    this.#size = 0;
  }
}
