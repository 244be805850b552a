/**
 * A simulated disk: two tables behind one commit, as LMDB gives them, and the segment files of the log. A commit is
 * atomic; what was not synced is gone after a crash. The disk survives the processes that use it.
 */
import { Buffer } from 'node:buffer';
import type { DirectoryStart, RememberedRun } from '../../src/peer/codec/standing.ts';
import type { Random } from '../support/random.ts';
import { LogDisk } from './log-disk.ts';
import { CheckedRows } from '../../src/store/row-check.ts';
import { OWN_TAG, halfOf, systemKey } from '../../src/store/rows.ts';
import { latin1 } from '../support/sorted-rows.ts';
import { RowHash, bare } from './row-hash.ts';
import { Table } from './table.ts';

/** The part of a group's log on the platter: for the checker of invariant 1. */
interface DurableLog {
  snapshotIndex: number;
  last: number;
  readonly terms: Map<number, number>;
}

export class SimDisk {
  readonly hash = new RowHash();
  readonly log = new Table();
  readonly logs: LogDisk;
  /** Rows with their checksums, as the store writes them. */
  readonly state = new Table((key, before, after) => this.hash.changed(key, bare(before), bare(after)));
  readonly #rows = new CheckedRows({
    getBinaryFast: (key) => this.state.get(latin1(key))?.slice(),
    putSync: notHere,
    removeSync: notHere,
  });
  /** The runs of peers, as far as this directory remembers them; and which losses were noticed on it. */
  readonly peerRuns = new Map<number, RememberedRun>();
  settled: readonly DirectoryStart[] = [];
  readonly #logs = new Map<number, DurableLog>();
  #notes: (() => void)[] = [];
  #inCommit = false;

  constructor(random: Random) {
    this.logs = new LogDisk(random);
  }

  get inCommit(): boolean {
    return this.#inCommit;
  }

  /** Runs `write`; when it throws, nothing happened. */
  commit(write: () => void): void {
    if (this.#inCommit) throw new Error('commits do not nest');
    const logMark = this.log.mark;
    const stateMark = this.state.mark;
    this.#inCommit = true;
    try {
      write();
    } catch (error) {
      this.log.rollback(logMark);
      this.state.rollback(stateMark);
      throw error;
    } finally {
      this.#inCommit = false;
    }
  }

  /** The value of a row of the state, whose checksum holds. */
  row(key: string): Uint8Array | undefined {
    return this.#rows.get(new Uint8Array(Buffer.from(key, 'latin1')))?.slice();
  }

  /** Under which prefix the state of the group lies. */
  prefix(group: number): number {
    return halfOf(group, this.row(latin1(systemKey(OWN_TAG.half, group))));
  }

  /** As the data file is rebuilt without a page that had rows of the group. */
  tearGroup(group: number): void {
    const key = systemKey(OWN_TAG.torn, group);
    const rows = { getBinaryFast: notHere, removeSync: notHere };
    new CheckedRows({ ...rows, putSync: (_, value) => this.state.set(latin1(key), value.slice()) }).put(
      key,
      Uint8Array.of(1),
    );
    this.state.sync();
  }

  /** Rows of the state, without the prefix that they lie under, in the order of their keys. */
  rowsUnder(prefix: number): (readonly [Uint8Array, Uint8Array])[] {
    const text = (high: number): string => String.fromCharCode(high >> 8, high & 0xff);
    return this.state.keys(text(prefix), text(prefix + 1)).map((key) => {
      return [new Uint8Array(Buffer.from(key.slice(2), 'latin1')), this.row(key) as Uint8Array] as const;
    });
  }

  /** All commits so far are on the platter. */
  sync(): void {
    this.log.sync();
    this.state.sync();
    for (const note of this.#notes) note();
    this.#notes = [];
  }

  /** The machine stops: what was not synced is gone. */
  crash(): void {
    this.log.rollback(0);
    this.state.rollback(0);
    this.logs.crash();
    this.#notes = [];
  }

  /** A start found the group's state there, and what it notes from now on behind it. */
  found(group: number, snapshotIndex: number): void {
    this.#logs.set(group, { snapshotIndex, last: snapshotIndex, terms: new Map() });
  }

  /** An entry is on the platter. */
  noteEntry(group: number, index: number, term: number): void {
    const log = this.#durable(group);
    log.terms.set(index, term);
    log.last = index;
  }

  /** A snapshot was installed by the last commit. */
  noteSnapshot(group: number, index: number): void {
    this.#notes.push(() => {
      const log = this.#durable(group);
      log.snapshotIndex = index;
      log.last = index;
    });
  }

  /** Is the entry on the platter, or covered by a snapshot there? */
  holds(group: number, index: number, term: number): boolean {
    const log = this.#durable(group);
    return index <= log.snapshotIndex || (index <= log.last && log.terms.get(index) === term);
  }

  #durable(group: number): DurableLog {
    let log = this.#logs.get(group);
    if (log === undefined) {
      log = { snapshotIndex: 0, last: 0, terms: new Map() };
      this.#logs.set(group, log);
    }
    return log;
  }
}

function notHere(): never {
  throw new Error('rows are written through the store');
}
