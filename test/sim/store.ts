import type { LogReader } from '../../src/raft/types.ts';
import type { TurnBatch } from '../../src/shard/ports.ts';
import { ShardStore, type StoreOptions } from '../../src/store/shard-store.ts';
import type { SimDisk } from './disk.ts';

interface Opened {
  readonly group: number;
  readonly appliedIndex: number;
  readonly log: LogReader;
}

/** The store of a shard that tells the checkers what becomes durable. */
export class SimStore extends ShardStore {
  writing: readonly TurnBatch[] = [];
  isLoading = false;
  /** Log that slow followers are left, in bytes. */
  logKeptBytes = 0;
  onCommit: (batches: readonly TurnBatch[], checkpointed: boolean) => void = () => {};
  readonly disk: SimDisk;
  readonly #opened: Opened[] = [];
  /** Batches that are on disk when the append has ended. */
  #appended: readonly TurnBatch[] = [];

  constructor(disk: SimDisk, options: StoreOptions) {
    super('', options);
    this.disk = disk;
  }

  override openLog(group: number, appliedIndex: number, appliedTerm: number): LogReader {
    const log = super.openLog(group, appliedIndex, appliedTerm);
    this.#opened.push({ group, appliedIndex, log });
    return log;
  }

  /** Everything that it finds is on the platter, also what the process before was not told of. */
  override load(sole: readonly number[]): void {
    this.isLoading = true;
    super.load(sole);
    this.isLoading = false;
    for (const { group, appliedIndex, log } of this.#opened) {
      this.disk.found(group, appliedIndex);
      for (let index = log.firstIndex(); index <= log.lastIndex(); index++) {
        this.disk.noteEntry(group, index, log.term(index));
      }
    }
  }

  override compactable(group: number, index: number): number {
    return super.compactable(group, index, this.logKeptBytes);
  }

  override append(batches: readonly TurnBatch[], how: 'wait' | 'behind' = 'wait'): void {
    this.writing = batches;
    try {
      super.append(batches, how);
    } finally {
      this.writing = [];
    }
    this.#appended = batches;
    this.endAppend('look');
  }

  override endAppend(how: 'look' | 'wait'): boolean {
    if (!super.endAppend(how)) return false;
    const batches = this.#appended;
    this.#appended = [];
    if (batches.length > 0) this.onCommit(batches, false);
    return true;
  }
}
