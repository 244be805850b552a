/**
 * Reads the rows of the state one after the other, so that those which the disk changed are met in time. Their pages are
 * checked before: LMDB may end the process on one that changed.
 */
import { RowDamage } from '../base/row-damage.ts';
import type { RowReader } from '../shard/ports.ts';
import type { Environment } from './environment.ts';
import { CheckedRows } from './row-check.ts';
import { MOVED_PREFIX, prefixKey } from './rows.ts';

/** A step costs at least so much for each row: reading one takes some microseconds, however small it is. */
const ROW_BYTES = 512;
const FIRST = new Uint8Array(0);
const MOVED = prefixKey(MOVED_PREFIX);
/** Behind all keys. */
const END = new Uint8Array(3).fill(0xff);

export class RowScrub implements RowReader {
  readonly #environment: Environment;
  readonly #rows: CheckedRows;
  #next: Uint8Array = FIRST;

  constructor(environment: Environment, noticed: (damage: RowDamage) => void) {
    this.#environment = environment;
    this.#rows = new CheckedRows(environment.state, { noticed });
  }

  step(bytesMax: number): ReturnType<RowReader['step']> {
    let bytes = 0;
    const checkedTo = this.#environment.checkLeaves(this.#next, bytesMax);
    for (const { key, value } of this.#environment.state.getRange({ start: this.#next, end: checkedTo ?? END })) {
      if (bytes >= bytesMax) {
        this.#next = key.slice();
        return { bytes, isEnd: false };
      }
      bytes += Math.max(ROW_BYTES, key.length + value.length);
      this.#check(key, value);
    }
    this.#next = checkedTo ?? FIRST;
    return { bytes, isEnd: checkedTo === undefined };
  }

  #check(key: Uint8Array, value: Uint8Array): void {
    // The checksum of another row covers it.
    if (isMoved(key)) return;
    try {
      this.#rows.open(key, value);
    } catch (error) {
      if (!(error instanceof RowDamage)) throw error;
    }
  }
}

function isMoved(key: Uint8Array): boolean {
  return key[0] === MOVED[0] && key[1] === MOVED[1];
}
