// A Tx as simple as it can be: a map and a sorted list of its keys. Stricter than the real store on purpose: writes
// only inside a transaction, and what get() and range() lend is scribbled over as soon as the contract allows.
import assert from 'node:assert/strict';
import type { Tx } from '../../src/base/tx.ts';
import { SortedRows, latin1 } from '../support/sorted-rows.ts';

export class SortedMapTx implements Tx {
  readonly #rows = new SortedRows();
  /** Values before the running transaction, by key; undefined = there was none. */
  #before: Map<string, Uint8Array | undefined> | undefined = undefined;
  #lent: Uint8Array[] = [];
  #visiting = false;

  get size(): number {
    return this.#rows.size;
  }

  begin(): void {
    assert.equal(this.#before, undefined, 'transactions do not nest');
    this.#before = new Map();
  }

  commit(): void {
    assert.notEqual(this.#before, undefined, 'a transaction is running');
    this.#before = undefined;
  }

  /** Everything as it was at begin(). */
  rollback(): void {
    const before = this.#before;
    assert(before !== undefined, 'a transaction is running');
    this.#before = undefined;
    for (const [key, value] of before) this.#rows.set(key, value);
  }

  get(key: Uint8Array): Uint8Array | undefined {
    this.#takeBack();
    const value = this.#rows.get(latin1(key));
    return value === undefined ? undefined : this.#lend(value);
  }

  put(key: Uint8Array, value: Uint8Array): void {
    this.#write(latin1(key), value.slice());
  }

  delete(key: Uint8Array): void {
    this.#write(latin1(key), undefined);
  }

  range(
    start: Uint8Array,
    end: Uint8Array,
    reverse: boolean,
    visit: (key: Uint8Array, value: Uint8Array) => boolean,
  ): void {
    this.#takeBack();
    const inside = this.#rows.keys(latin1(start), latin1(end));
    if (reverse) inside.reverse();
    const nested = this.#visiting;
    this.#visiting = true;
    try {
      for (const key of inside) {
        const lentKey = new Uint8Array(Buffer.from(key, 'latin1'));
        const lentValue = this.#rows.get(key)?.slice() as Uint8Array;
        const going = visit(lentKey, lentValue);
        lentKey.fill(0xa5);
        lentValue.fill(0xa5);
        if (!going) break;
      }
    } finally {
      this.#visiting = nested;
    }
  }

  keys(start: Uint8Array, end: Uint8Array, visit: (key: Uint8Array) => boolean): void {
    this.range(start, end, false, visit);
  }

  /** All rows, for comparing two stores. */
  *entries(): Generator<readonly [string, Uint8Array]> {
    for (const key of this.#rows.allKeys()) yield [key, this.#rows.get(key) as Uint8Array];
  }

  #write(key: string, value: Uint8Array | undefined): void {
    assert(this.#before !== undefined, 'put and delete only inside a commit');
    assert(!this.#visiting, 'visit must not write');
    this.#takeBack();
    if (!this.#before.has(key)) this.#before.set(key, this.#rows.get(key));
    this.#rows.set(key, value);
  }

  #lend(value: Uint8Array): Uint8Array {
    const copy = value.slice();
    this.#lent.push(copy);
    return copy;
  }

  #takeBack(): void {
    for (const value of this.#lent) value.fill(0xa5);
    this.#lent = [];
  }
}
