/**
 * The LMDB environment of one shard: two tables (log and state), one commit per turn.
 *
 * lmdb-js settings, each proven with strace (test/crash/fsync-order.test.ts): overlappingSync off, so that
 * transactionSync returns after fdatasync of the pages and the O_DSYNC write of the meta page; no cache, no encoding. A
 * failed commit (ENOSPC) leaves the environment unchanged and may be retried.
 */
import { join } from 'node:path';
import { type Database, type RootDatabase, open } from 'lmdb';
import type { SnapshotReader } from '../shard/ports.ts';
import type { Tx } from '../base/tx.ts';
import { checkDataFile } from './data-file.ts';
import { rowSize, writeRow } from '../base/row-bytes.ts';

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

type Table = Database<Uint8Array, Uint8Array>;

export class Environment {
  readonly #root: RootDatabase<Uint8Array, Uint8Array>;
  readonly log: Table;
  readonly state: Table;

  constructor(directory: string) {
    checkDataFile(join(directory, 'data.mdb'));
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
    this.state = this.#root.openDB<Uint8Array, Uint8Array>({ name: 'state', ...binary });
  }

  /** Runs `write` in one transaction; when this returns, everything it wrote is on disk. Throws when it is not. */
  commit(write: () => void): void {
    this.#root.transactionSync(write);
  }

  /** Reads see from now on what another thread has committed. */
  refresh(): void {
    this.state.resetReadTxn();
  }

  /** Bytes of free pages inside the file: the file never shrinks, but commits use them first. */
  freeBytes(): number {
    let used = META_PAGES;
    const main = this.#root.getStats() as EnvironmentStats;
    for (const stats of [main.root, main.free, this.log.getStats(), this.state.getStats()] as TreeStats[]) {
      used += stats.treeBranchPageCount + stats.treeLeafPageCount + stats.overflowPages;
    }
    return Math.max(0, main.lastPageNumber + 1 - used) * main.pageSize;
  }

  /** All rows of the state table in each [start, end), as of now, in chunks (base/row-bytes.ts). */
  openRanges(ranges: readonly (readonly [start: Uint8Array, end: Uint8Array])[]): SnapshotReader {
    const transaction = this.state.useReadTransaction();
    const { state } = this;
    const rows = (function* () {
      for (const [start, end] of ranges) yield* state.getRange({ start, end, transaction });
    })();
    let held: { key: Uint8Array; value: Uint8Array } | undefined;
    return {
      next: (bytesMax) => {
        const chunk: { key: Uint8Array; value: Uint8Array }[] = held === undefined ? [] : [held];
        let size = held === undefined ? 0 : rowSize(held.key, held.value);
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
    await this.#root.close();
  }
}

/** The state table as the state machine's port. Writes only inside Environment.commit. */
export class LmdbTx implements Tx {
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
  }

  get(key: Uint8Array): Uint8Array | undefined {
    // lmdb-js answers with its shared buffer and only sets a length: `set` and `slice` would copy all 16 MiB of it.
    const value = this.#table.getBinaryFast(key);
    return value === undefined ? undefined : new Uint8Array(value.buffer, value.byteOffset, value.length);
  }

  put(key: Uint8Array, value: Uint8Array): void {
    this.#table.putSync(key, value);
  }

  delete(key: Uint8Array): void {
    this.#table.removeSync(key);
  }

  range(
    start: Uint8Array,
    end: Uint8Array,
    reverse: boolean,
    visit: (key: Uint8Array, value: Uint8Array) => boolean,
  ): void {
    if (compare(start, end) >= 0) return;
    // lmdb-js walks backwards from `start` (inclusive) to `end` (exclusive); our bounds are [start, end) both ways.
    const options = reverse ? { start: end, end: start, reverse: true } : { start, end };
    for (const { key, value } of this.#table.getRange(options)) {
      if (reverse && compare(key, end) >= 0) continue;
      if (!visit(key, value)) return;
    }
    if (!reverse) return;
    const first = this.#table.get(start);
    if (first !== undefined) visit(start, first);
  }
}

function compare(a: Uint8Array, b: Uint8Array): number {
  return Buffer.compare(a, b);
}
