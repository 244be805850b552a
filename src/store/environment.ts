/**
 * The LMDB environment of one shard. Its table of rows is read and written through CheckedRows; the others are empty
 * but for what versions before left there.
 *
 * lmdb-js settings, each proven with strace (test/crash/fsync-order.test.ts): overlappingSync off, so that
 * transactionSync returns after fdatasync of the pages and the O_DSYNC write of the meta page; no cache, no encoding. A
 * failed commit (ENOSPC) leaves the environment unchanged and may be retried.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Database, type RootDatabase, open } from 'lmdb';
import type { RowRange, SnapshotReader } from '../shard/ports.ts';
import type { Tx } from '../base/tx.ts';
import { RowDamage } from '../base/row-damage.ts';
import { DOUBTED, type LeafRange, LeafReader, checkDataFile } from './data-file.ts';
import { rowSize, writeRow } from '../base/row-bytes.ts';
import { KeyOrder, OUT_OF_ORDER } from './key-order.ts';
import { PageDamage, isLmdbDamage } from './lmdb-damage.ts';
import { type Change, FIRST_KEY, type KeyRange, type PathCheck, type Walk } from './path-check.ts';
import { CheckedRows, type CheckedRowsOptions, type RowTable } from './row-check.ts';

/** Address space reserved for the map; the file itself grows as needed. */
const MAP_BYTES = 256 * 1024 * 1024 * 1024;

/** Files 0600, whatever the umask of an embedding process is. lmdb-js knows the option, its types do not. */
const PRIVATE = { permissionsMode: 0o600 };

/** Statistics that lmdb-js reports for one tree, and for all; its own types omit them. */
interface TreeStats {
  readonly treeBranchPageCount: number;
  readonly treeLeafPageCount: number;
  readonly overflowPages: number;
}

interface EnvironmentStats {
  readonly root: TreeStats;
  readonly free: TreeStats;
  readonly lastPageNumber: number;
  readonly pageSize: number;
}

const META_PAGES = 2;
/** Leaves that are checked at once, some 25 us each; with rows that fill pages of their own, some 2 ms. */
const LEAVES = 4;
/** As many, before a cursor walks through them for a piece of 32 KiB. */
const LEAVES_AHEAD = 8;
export const STATE_TABLE = 'rows';

export const UNREADABLE = 'its page cannot be read';

type Table = Database<Uint8Array, Uint8Array>;

export class Environment {
  readonly #path: string;
  readonly #root: RootDatabase<Uint8Array, Uint8Array>;
  /** The log of versions before format 3. */
  readonly log: Table;
  /** Rows without checksums, of versions before format 4. */
  readonly unchecked: Table;
  readonly state: Table;
  readonly #leaves: LeafReader;
  /** For the commit that is under way, and for reads until the next one has ended. */
  #toWrite: PathCheck | undefined;
  #toRead: PathCheck | undefined;
  /** Until the next commit. */
  #freeBytes: number | undefined;

  constructor(directory: string) {
    this.#path = join(directory, 'data.mdb');
    checkDataFile(this.#path);
    const binary = { encoding: 'binary', keyEncoding: 'binary' } as const;
    this.#root = open<Uint8Array, Uint8Array>({
      path: directory,
      noSubdir: false,
      maxDbs: 8,
      mapSize: MAP_BYTES,
      overlappingSync: false,
      noMemInit: true,
      ...PRIVATE,
      ...binary,
    });
    this.log = this.#root.openDB<Uint8Array, Uint8Array>({ name: 'log', ...binary });
    this.unchecked = this.#root.openDB<Uint8Array, Uint8Array>({ name: 'state', ...binary });
    this.state = this.#root.openDB<Uint8Array, Uint8Array>({ name: STATE_TABLE, ...binary });
    this.#leaves = new LeafReader(this.#path);
  }

  /** Runs `write` in one transaction; when this returns, everything it wrote is on disk. Throws when it is not. */
  commit(write: () => void): void {
    this.#toWrite = undefined;
    try {
      this.#doubting(() => this.#root.transactionSync(write));
    } finally {
      this.#forget();
    }
  }

  /** Inside a commit, before it writes this row: throws StateError instead of letting LMDB change damaged pages. */
  beforeWrite(key: Uint8Array, change: Change): void {
    this.#toWrite ??= this.#leaves.paths(STATE_TABLE, 'checked');
    this.#toWrite.beforeWrite(key, change);
  }

  /** Before a cursor walks: up to where it may, as PathCheck tells it. Throws StateError. */
  beforeWalk(walk: Walk): KeyRange {
    return this.#doubting(() => {
      this.#toRead ??= this.#leaves.paths(STATE_TABLE, 'skipped');
      return this.#toRead.beforeWalk(walk);
    });
  }

  /** Reads see from now on what another thread has committed. */
  refresh(): void {
    this.#forget();
    this.state.resetReadTxn();
  }

  /** A page cannot be read: the next start looks at all of them. Reads go on with another transaction. */
  doubt(): void {
    try {
      writeFileSync(this.#path + DOUBTED, '', { mode: 0o600 });
    } catch {
      // On a full or read-only volume the next start looks at the first leaves, as every start does.
    }
    this.refresh();
  }

  /**
   * Checks some leaves of the state from `from` on before LMDB follows them. Returns the key up to which it may;
   * undefined: everywhere. Throws StateError. Reads after it see what was checked.
   */
  checkLeaves(from: Uint8Array, long: LeafRange['long']): Uint8Array | undefined {
    // It keeps the pages of the last commit from being used again.
    const transaction = this.state.useReadTransaction();
    try {
      return this.#doubting(() => this.#leaves.latest()({ table: STATE_TABLE, from, leaves: LEAVES, long }));
    } finally {
      transaction.done();
      this.refresh();
    }
  }

  #doubting<T>(check: () => T): T {
    try {
      return check();
    } catch (error) {
      if (error instanceof PageDamage) this.doubt();
      throw error;
    }
  }

  /** Bytes of free pages inside the file: the file never shrinks, but commits use them first. */
  freeBytes(): number {
    return (this.#freeBytes ??= this.#countFree());
  }

  /** Both belong to the commit before. */
  #forget(): void {
    this.#toRead = undefined;
    this.#freeBytes = undefined;
  }

  #countFree(): number {
    let used = META_PAGES;
    const main = this.#root.getStats() as EnvironmentStats;
    const tables = [this.log, this.unchecked, this.state].map((table) => table.getStats());
    for (const stats of [main.root, main.free, ...tables] as TreeStats[]) {
      used += stats.treeBranchPageCount + stats.treeLeafPageCount + stats.overflowPages;
    }
    return Math.max(0, main.lastPageNumber + 1 - used) * main.pageSize;
  }

  /**
   * All rows of the state table in each [start, end), as of now, in chunks (base/row-bytes.ts). Throws RowDamage, and
   * as checkLeaves().
   */
  openRanges(ranges: readonly RowRange[], noticed: (damage: RowDamage) => void): SnapshotReader {
    const transaction = this.state.useReadTransaction();
    const { state } = this;
    // The tree that the cursor walks: later commits have others, and use no page of it again.
    const check = this.#doubting(() => this.#leaves.latest());
    const ahead = (from: Uint8Array): Uint8Array | undefined =>
      this.#doubting(() => check({ table: STATE_TABLE, from, leaves: LEAVES_AHEAD, long: 'skipped' }));
    const checks = new CheckedRows(state, { reads: { transaction }, noticed });
    const rows = (function* () {
      for (const range of ranges) {
        const order = new KeyOrder('ascending', range[0]);
        for (const part of checkedRanges(range, ahead))
          for (const { key, value } of state.getRange({ ...part, transaction })) {
            if (!order.follows(key)) throw new RowDamage(key, OUT_OF_ORDER);
            yield { key, value: checks.open(key, value) };
          }
      }
    })();
    let held: { key: Uint8Array; value: Uint8Array } | undefined;
    return {
      next: (bytesMax) => {
        const chunk: { key: Uint8Array; value: Uint8Array }[] = held === undefined ? [] : [held];
        let size = held === undefined ? 0 : rowSize(held.key, held.value);
        // The leaves behind it may have changed since the chunk before.
        if (held !== undefined) ahead(held.key);
        held = undefined;
        for (let row = rows.next(); row.done !== true; row = rows.next()) {
          const bytes = rowSize(row.value.key, row.value.value);
          if (chunk.length > 0 && size + bytes > bytesMax) {
            held = row.value;
            break;
          }
          size += bytes;
          chunk.push(row.value);
        }
        if (chunk.length === 0) return undefined;
        const out = new Uint8Array(size);
        let at = 0;
        for (const { key, value } of chunk) at += writeRow(out, at, key, value);
        return out;
      },
      close: () => {
        rows.return();
        transaction.done();
      },
    };
  }

  async close(): Promise<void> {
    this.#leaves.close();
    await this.#root.close();
  }
}

/** The range in parts whose leaves `ahead` looks at just before: a cursor would end the process in one that changed. */
export function* checkedRanges(
  [start, end]: RowRange,
  ahead: (from: Uint8Array) => Uint8Array | undefined,
): IterableIterator<{ readonly start: Uint8Array; readonly end: Uint8Array }> {
  for (let from = start; ;) {
    const to = ahead(from);
    const isLast = to === undefined || Buffer.compare(to, end) >= 0;
    yield { start: from, end: isLast ? end : to };
    if (isLast) return;
    from = to;
  }
}

/** The state table as the state machine's port. Writes only inside Environment.commit; reads throw RowDamage. */
export class LmdbTx implements Tx {
  readonly #table: StateTable;
  readonly #rows: CheckedRows;
  readonly #damaged: Damaged;

  constructor(table: StateTable, damaged: Damaged = {}) {
    this.#table = table;
    this.#damaged = damaged;
    this.#rows = new CheckedRows(table, damaged);
  }

  get(key: Uint8Array): Uint8Array | undefined {
    try {
      return this.#rows.get(key);
    } catch (error) {
      throw this.#judged(key, error);
    }
  }

  /** LMDB may say that a page is not what it wrote: of all rows there, this one is asked for. */
  #judged(key: Uint8Array, error: unknown): unknown {
    if (!isLmdbDamage(error) && !(error instanceof PageDamage)) return error;
    if (this.#damaged.doubted === undefined) return error;
    this.#damaged.doubted();
    const damage = new RowDamage(key.slice(), UNREADABLE);
    this.#damaged.noticed?.(damage);
    return damage;
  }

  #need(isInOrder: boolean, key: Uint8Array): void {
    if (isInOrder) return;
    const damage = new RowDamage(key, OUT_OF_ORDER);
    this.#damaged.noticed?.(damage);
    throw damage;
  }

  put(key: Uint8Array, value: Uint8Array): void {
    this.#rows.put(key, value);
  }

  delete(key: Uint8Array): void {
    this.#rows.delete(key);
  }

  range(
    start: Uint8Array,
    end: Uint8Array,
    reverse: boolean,
    visit: (key: Uint8Array, value: Uint8Array) => boolean,
  ): void {
    const way = reverse ? 'back' : 'forward';
    const order = new KeyOrder(reverse ? 'descending' : 'ascending', reverse ? end : start);
    try {
      for (const part of this.#parts({ start, end, way })) {
        // lmdb-js walks back from `start` (inclusive) to `end` (exclusive); our bounds are [start, end) both ways.
        const options = reverse ? { start: part.end, end: part.start, reverse: true } : part;
        for (const { key, value } of this.#table.getRange(options)) {
          this.#need(order.follows(key), key);
          if (reverse && Buffer.compare(key, end) === 0) continue;
          if (!visit(key, this.#rows.open(key, value))) return;
        }
      }
      if (!reverse || Buffer.compare(start, end) >= 0) return;
      const first = this.#rows.get(start);
      if (first !== undefined) visit(start, first);
    } catch (error) {
      throw this.#judged(start, error);
    }
  }

  keys(start: Uint8Array, end: Uint8Array, visit: (key: Uint8Array) => boolean): void {
    const order = new KeyOrder('ascending', start);
    try {
      for (const part of this.#parts({ start, end, way: 'forward' })) {
        for (const { key } of this.#table.getRange(part)) {
          this.#need(order.follows(key), key);
          if (!visit(key)) return;
        }
      }
    } catch (error) {
      throw this.#judged(start, error);
    }
  }

  /** The walk in parts, before each of which its leaf is looked at. */
  *#parts({ start, end, way }: Walk): IterableIterator<Omit<Walk, 'way'>> {
    for (let rest = { start, end }; Buffer.compare(rest.start, rest.end) < 0;) {
      const { from, to } = this.#damaged.beforeWalk?.({ ...rest, way }) ?? { from: FIRST_KEY, to: undefined };
      const middle = way === 'forward' ? (to ?? end) : from;
      const isLast = way === 'forward' ? Buffer.compare(middle, end) >= 0 : Buffer.compare(middle, start) <= 0;
      if (isLast) return void (yield rest);
      yield way === 'forward' ? { start: rest.start, end: middle } : { start: middle, end: rest.end };
      rest = way === 'forward' ? { start: middle, end } : { start, end: middle };
    }
  }
}

/** Told of what cannot be read. Without `doubted`, what LMDB says of a page is thrown as it is. */
interface Damaged extends Pick<CheckedRowsOptions, 'noticed' | 'beforeWrite'> {
  /** Before a cursor walks: up to where it may. */
  readonly beforeWalk?: (walk: Walk) => KeyRange;
  readonly doubted?: () => void;
}

/** A table of lmdb-js, as far as a Tx uses it. */
interface StateTable extends RowTable {
  getRange(options: object): Iterable<{ readonly key: Uint8Array; readonly value: Uint8Array }>;
}
