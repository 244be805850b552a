/**
 * Requests that are under way, by a number. A Map that loses as much as it gets is made afresh all the time, and each one keeps its
 * successor with all that was ever in it, until V8 collects its old space: nine tenths of what a session allocated were
 * moved there before. Here entries are chained, and one that has left holds no other.
 */

export interface Sibling<T> {
  /** A whole number; consecutive ones spread best. */
  readonly hash: number;
  /** The next one of the same place. */
  sibling: T | undefined;
}

/** A power of two. */
const FIRST_PLACES = 16;

export class Table<T extends Sibling<T>> {
  #places = emptyPlaces<T>(FIRST_PLACES);
  size = 0;

  /** The first that may have this hash; the others are its siblings. */
  first(hash: number): T | undefined {
    return this.#places[hash & (this.#places.length - 1)];
  }

  add(entry: T): void {
    if (this.size === this.#places.length) this.#grow();
    this.size++;
    this.#put(entry);
  }

  /** False: it was not there. */
  delete(entry: T): boolean {
    let before: T | undefined;
    let one = this.first(entry.hash);
    for (; one !== entry; one = one.sibling) {
      if (one === undefined) return false;
      before = one;
    }
    if (before !== undefined) before.sibling = entry.sibling;
    else this.#places[entry.hash & (this.#places.length - 1)] = entry.sibling;
    entry.sibling = undefined;
    this.size--;
    return true;
  }

  all(): T[] {
    const found: T[] = [];
    for (const first of this.#places) for (let one = first; one !== undefined; one = one.sibling) found.push(one);
    return found;
  }

  #put(entry: T): void {
    const place = entry.hash & (this.#places.length - 1);
    entry.sibling = this.#places[place];
    this.#places[place] = entry;
  }

  #grow(): void {
    const all = this.all();
    this.#places = emptyPlaces<T>(2 * this.#places.length);
    for (const entry of all) this.#put(entry);
  }
}

function emptyPlaces<T>(length: number): (T | undefined)[] {
  return Array.from({ length }, () => undefined);
}
