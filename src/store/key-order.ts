/** The order of keys, which a disk may change without any checksum telling: those of the rows are right all the same. */
import { compareBytes, ownCopy } from '../base/bytes.ts';
import type { KeyRange } from './path-check.ts';

export const OUT_OF_ORDER = 'it lies among rows with other keys';

/** Rows as a walk meets them. LMDB begins at the wrong place in a leaf without order, and shows rows of another range. */
export class KeyOrder {
  readonly #direction: number;
  #before: Uint8Array;
  #isFirst = true;

  constructor(order: 'ascending' | 'descending', start: Uint8Array) {
    this.#direction = order === 'ascending' ? 1 : -1;
    this.#before = start;
  }

  follows(key: Uint8Array): boolean {
    const way = compareBytes(key, this.#before) * this.#direction;
    const isInOrder = way > 0 || (way === 0 && this.#isFirst);
    this.#isFirst = false;
    this.#before = ownCopy(key);
    return isInOrder;
  }
}

/**
 * The keys of a leaf without the one that a changed bit put out of their order, if they have one then: that row is kept,
 * and its checksum tells.
 */
export function keysBesideStray(keys: readonly Uint8Array[], range: KeyRange): readonly Uint8Array[] {
  const isInPlace = (key: Uint8Array, i: number, all: readonly Uint8Array[]): boolean =>
    compareBytes(all[i - 1] ?? range.from, key) <= 0 && (range.to === undefined || compareBytes(key, range.to) < 0);
  const at = keys.findIndex((key, i) => !isInPlace(key, i, keys));
  const without = [at, at - 1].filter((i) => i >= 0).map((i) => keys.toSpliced(i, 1));
  return without.find((others) => others.every(isInPlace)) ?? keys;
}
