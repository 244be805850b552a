/**
 * A simulated disk with the face of src/store/environment.ts, so that the real store runs on it. One per life of a
 * process.
 */
import { Buffer } from 'node:buffer';
import type { RowRange, SnapshotReader } from '../../src/shard/ports.ts';
import type { Environment } from '../../src/store/environment.ts';
import type { RowDamage } from '../../src/base/row-damage.ts';
import { rowSize, writeRow } from '../../src/base/row-bytes.ts';
import type { SimDisk } from './disk.ts';
import { latin1 } from '../support/sorted-rows.ts';
import type { KeyRange } from '../../src/store/path-check.ts';
import { CheckedRows } from '../../src/store/row-check.ts';
import { Table } from './table.ts';

interface Row {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

interface Range {
  readonly start?: Uint8Array;
  readonly end?: Uint8Array;
  readonly reverse?: boolean;
}

/** Told about each commit of the process; may throw to refuse it or to end the process. */
export interface CommitHooks {
  /** Inside the commit, when everything is written and nothing is durable. */
  beforeSync(): void;
  /** The commit is durable (or is said to be). */
  afterSync(): void;
  /** Usually SimDisk.sync. */
  sync(disk: SimDisk): void;
  /** Rows with this tag are missing from group snapshots; -1: none. */
  readonly hiddenTag: number;
}

/** The calls of lmdb-js that the store makes. What it lends is scribbled over, as lmdb-js' shared buffer is. */
class SimTable {
  readonly #disk: SimDisk;
  readonly #table: Table;
  #lent: Uint8Array | undefined;

  constructor(disk: SimDisk, table: Table) {
    this.#disk = disk;
    this.#table = table;
  }

  getBinaryFast(key: Uint8Array): Uint8Array | undefined {
    this.#lent?.fill(0xa5);
    this.#lent = this.#table.read(latin1(key))?.slice();
    return this.#lent;
  }

  get(key: Uint8Array): Uint8Array | undefined {
    return this.#table.read(latin1(key))?.slice();
  }

  putSync(key: Uint8Array, value: Uint8Array): void {
    if (!this.#disk.inCommit) throw new Error('put only inside a commit');
    // A slice of a Buffer is a view of memory with another owner.
    if (Buffer.isBuffer(value)) throw new Error('rows are plain bytes, not Buffers');
    this.#table.set(latin1(key), value.slice());
  }

  removeSync(key: Uint8Array): void {
    if (!this.#disk.inCommit) throw new Error('delete only inside a commit');
    this.#table.set(latin1(key), undefined);
  }

  *getRange({ start, end, reverse }: Range): Generator<Row> {
    let keys: string[];
    if (start === undefined || end === undefined) keys = this.#table.allKeys();
    else if (reverse !== true) keys = this.#table.keys(latin1(start), latin1(end));
    // Backwards from start (inclusive) to end (exclusive), as lmdb-js does it.
    else keys = this.#table.keys(`${latin1(end)}\0`, `${latin1(start)}\0`).reverse();
    for (const text of keys) {
      const value = this.#table.read(text);
      if (value === undefined) continue;
      const row = { key: bytesOf(text), value: value.slice() };
      yield row;
      row.key.fill(0xa5);
    }
  }
}

class SimEnvironment {
  readonly log: SimTable;
  readonly unchecked: SimTable;
  readonly state: SimTable;
  readonly #disk: SimDisk;
  readonly #hooks: CommitHooks;
  readonly #chunkBytesMax: number;

  constructor(disk: SimDisk, hooks: CommitHooks, chunkBytesMax: number) {
    this.#disk = disk;
    this.#hooks = hooks;
    this.#chunkBytesMax = chunkBytesMax;
    this.log = new SimTable(disk, disk.log);
    this.unchecked = new SimTable(disk, new Table());
    this.state = new SimTable(disk, disk.state);
  }

  commit(write: () => void): void {
    this.#disk.commit(() => {
      write();
      this.#hooks.beforeSync();
    });
    this.#hooks.sync(this.#disk);
    this.#hooks.afterSync();
  }

  /** All rows from each `start` to its `end` as they are now. */
  openRanges(ranges: readonly RowRange[], noticed: (damage: RowDamage) => void): SnapshotReader {
    const { state } = this.#disk;
    const { hiddenTag } = this.#hooks;
    const keys = ranges
      .flatMap(([start, end]) => state.keys(latin1(start), latin1(end)))
      .filter((key) => key.charCodeAt(2) !== hiddenTag);
    const stored = keys.map((text) => ({ key: bytesOf(text), value: state.read(text) as Uint8Array }));
    const checks = new CheckedRows(this.state, { noticed });
    let at = 0;
    return {
      next: (bytesMax) => {
        const most = Math.min(bytesMax, this.#chunkBytesMax);
        const first = at;
        let size = 0;
        const rows: Row[] = [];
        for (; at < stored.length; at++) {
          const { key, value: kept } = stored[at] as Row;
          const value = checks.open(key, kept.slice());
          if (at > first && size + rowSize(key, value) > most) break;
          size += rowSize(key, value);
          rows.push({ key, value });
        }
        if (at === first) return undefined;
        const chunk = new Uint8Array(size);
        let written = 0;
        for (const { key, value } of rows) written += writeRow(chunk, written, key, value);
        return chunk;
      },
      close: () => void (at = stored.length),
    };
  }

  /** There are no pages. */
  checkLeaves(): undefined {}

  beforeWrite(): void {}

  beforeWalk(): KeyRange {
    return { from: new Uint8Array(0), to: undefined };
  }

  /** Reads see every commit. */
  refresh(): void {}

  async close(): Promise<void> {}
}

/** Small chunks make a snapshot of a small state travel in many. */
export function openEnvironment(disk: SimDisk, hooks: CommitHooks, chunkBytesMax: number): Environment {
  // Sound as far as the store goes: it uses nothing else of an environment.
  return new SimEnvironment(disk, hooks, chunkBytesMax) as unknown as Environment;
}

function bytesOf(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'latin1'));
}
