/**
 * A shard's store, read by another thread of the same process: LMDB readers and the writer do not block each other. A
 * slow read (a page that must come from the disk, for example) delays no shard.
 *
 * A read transaction sees one commit. Only checkpoints write state, so it sees a group as of its last checkpoint, with
 * the meta row that identifies it.
 *
 * Only for stores that a shard thread of this process has open: lmdb-js then shares its environment and tables.
 */
import { join } from 'node:path';
import { type Database, type RootDatabase, type Transaction, open } from 'lmdb';
import { RowDamage } from '../base/row-damage.ts';
import { LeafReader } from './data-file.ts';
import { STATE_TABLE, UNREADABLE, checkedRanges } from './environment.ts';
import { KeyOrder, OUT_OF_ORDER } from './key-order.ts';
import { PageDamage } from './lmdb-damage.ts';
import { FIRST_KEY } from './path-check.ts';
import { CheckedRows } from './row-check.ts';
import { OWN_TAG, halfOf, systemKey, tagKey } from './rows.ts';

/**
 * Leaves that are checked before a cursor walks through them, and again from where it goes on: as many, so that a second
 * look covers what is left of the first. Less than a piece of an export; one leaf of full rows leads to more.
 */
const AHEAD = { table: STATE_TABLE, leaves: Infinity, bytes: 256 * 1024, long: 'skipped' } as const;

type Table = Database<Uint8Array, Uint8Array>;

export class StoreReader {
  readonly #leaves: LeafReader;
  readonly #root: RootDatabase<Uint8Array, Uint8Array>;
  readonly #state: Table;

  constructor(directory: string) {
    const binary = { encoding: 'binary', keyEncoding: 'binary' } as const;
    this.#root = open<Uint8Array, Uint8Array>({
      path: directory,
      noSubdir: false,
      maxDbs: 8,
      readOnly: true,
      overlappingSync: false,
      ...binary,
    });
    this.#state = this.#root.openDB<Uint8Array, Uint8Array>({ name: STATE_TABLE, ...binary });
    this.#leaves = new LeafReader(join(directory, 'data.mdb'));
  }

  /** The group as of now. */
  openGroup(group: number): GroupReader {
    // Data read earlier in this turn of the event loop may be older than the requested checkpoint.
    this.#state.resetReadTxn();
    return new GroupReader(this.#leaves, this.#state, group);
  }

  async close(): Promise<void> {
    this.#leaves.close();
    await this.#root.close();
  }
}

/** Its reads throw RowDamage. */
export class GroupReader {
  readonly #check: ReturnType<LeafReader['latest']>;
  readonly #state: Table;
  readonly #transaction: Transaction;
  readonly #checks: CheckedRows;
  readonly #prefix: number;
  #open = true;
  #hasPaused = false;

  constructor(leaves: LeafReader, state: Table, group: number) {
    this.#state = state;
    this.#transaction = state.useReadTransaction();
    this.#checks = new CheckedRows(state, { reads: { transaction: this.#transaction } });
    try {
      // The tree that the cursor walks: later commits have others, and use no page of it again.
      this.#check = orDamage(FIRST_KEY, () => leaves.latest());
      this.#prefix = halfOf(group, this.#get(systemKey(OWN_TAG.half, group)));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Its user paused: leaves may have changed since they were looked at. */
  lookAgain(): void {
    this.#hasPaused = true;
  }

  /** The row whose key is just its tag. */
  row(tag: number): Uint8Array | undefined {
    return this.#get(tagKey(this.#prefix, tag));
  }

  /** All rows of these kinds, one kind after the other; keys include their prefix. */
  *rows(tags: readonly number[]): IterableIterator<{ readonly key: Uint8Array; readonly value: Uint8Array }> {
    const transaction = this.#transaction;
    for (const tag of tags) {
      const [start, end] = [tagKey(this.#prefix, tag), tagKey(this.#prefix, tag + 1)];
      const order = new KeyOrder('ascending', start);
      for (const part of checkedRanges([start, end], (from) => this.#checkLeaves(from)))
        for (const { key, value } of this.#state.getRange({ ...part, transaction })) {
          if (!order.follows(key)) throw new RowDamage(key, OUT_OF_ORDER);
          yield { key: plain(key), value: this.#checks.open(key, value) };
          if (this.#hasPaused) this.#checkLeaves(key);
        }
    }
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#transaction.done();
  }

  #checkLeaves(from: Uint8Array): Uint8Array | undefined {
    this.#hasPaused = false;
    return orDamage(from, () => this.#check({ ...AHEAD, from }));
  }

  #get(key: Uint8Array): Uint8Array | undefined {
    return this.#checks.get(key)?.slice();
  }
}

function orDamage<T>(from: Uint8Array, look: () => T): T {
  try {
    return look();
  } catch (error) {
    if (!(error instanceof PageDamage)) throw error;
    throw new RowDamage(from, UNREADABLE, { cause: error });
  }
}

/** lmdb-js returns Buffers, whose slice() shares memory. */
function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
