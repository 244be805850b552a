import type { TurnBatch } from '../../src/shard/ports.ts';
import type { Environment } from '../../src/store/environment.ts';
import { ShardStore } from '../../src/store/shard-store.ts';
import type { SimDisk } from './disk.ts';

/** The store of a shard that tells the checkers what becomes durable. */
export class SimStore extends ShardStore {
  writing: readonly TurnBatch[] = [];
  /** Log that slow followers are left, in bytes. */
  logKeptBytes = 0;
  onCommit: (batches: readonly TurnBatch[], checkpointed: boolean) => void = () => {};
  readonly disk: SimDisk;

  constructor(disk: SimDisk, environment: Environment) {
    super('', environment);
    this.disk = disk;
  }

  override compactable(group: number, index: number): number {
    return super.compactable(group, index, this.logKeptBytes);
  }

  override commit(batches: readonly TurnBatch[], checkpoint: (() => void) | undefined): void {
    this.writing = batches;
    try {
      super.commit(batches, checkpoint);
    } finally {
      this.writing = [];
    }
    this.onCommit(batches, checkpoint !== undefined);
  }
}
