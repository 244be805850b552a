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
/** Steps, each a tick, for one of the pass over leaves alone: 20 leaves a second, with 8 MB of full rows. */
const LEAVES_EVERY = 2;
/** Such a pass begins once a second at most: a small file has few leaves, and each look costs some 0.2 ms. */
const PASS_EVERY = 10;
const FIRST = new Uint8Array(0);
const MOVED = prefixKey(MOVED_PREFIX);
/** Behind all keys. */
const END = new Uint8Array(3).fill(0xff);

export class RowScrub implements RowReader {
  readonly #environment: Environment;
  readonly #rows: CheckedRows;
  #next: Uint8Array = FIRST;
  /** Where the leaves from #next on are checked, up to this key; undefined: all are. */
  #isChecked = false;
  #checkedTo: Uint8Array | undefined;
  #steps = 0;
  /** The next one of the pass over leaves alone. */
  #leaf: Uint8Array = FIRST;

  constructor(environment: Environment, noticed: (damage: RowDamage) => void) {
    this.#environment = environment;
    this.#rows = new CheckedRows(environment.state, { noticed });
  }

  step(bytesMax: number): ReturnType<RowReader['step']> {
    // Leaves are few: a pass over them alone is at its end long before the rows are.
    const every = this.#leaf === FIRST ? PASS_EVERY : LEAVES_EVERY;
    if (this.#steps++ % every === 0) this.#leaf = this.#environment.checkLeaves(this.#leaf, 'skipped') ?? FIRST;
    // They may have changed since the step before.
    if (this.#isChecked && bytesMax > 0) this.#environment.checkLeaves(this.#next, 'skipped');
    for (let bytes = 0; ;) {
      if (bytes >= bytesMax) return { bytes, isEnd: false };
      if (!this.#isChecked) this.#checkedTo = this.#environment.checkLeaves(this.#next, 'read');
      this.#isChecked = true;
      bytes += this.#read(bytesMax - bytes);
      if (this.#isChecked) continue;
      this.#next = this.#checkedTo ?? FIRST;
      if (this.#checkedTo === undefined) return { bytes, isEnd: true };
    }
  }

  /** Rows up to where the leaves are checked, or so many bytes of them. */
  #read(bytesMax: number): number {
    let bytes = 0;
    for (const { key, value } of this.#environment.state.getRange({ start: this.#next, end: this.#checkedTo ?? END })) {
      if (bytes >= bytesMax) {
        this.#next = key.slice();
        return bytes;
      }
      bytes += Math.max(ROW_BYTES, key.length + value.length);
      this.#check(key, value);
    }
    this.#isChecked = false;
    return bytes;
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
