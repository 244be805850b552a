/** Groups whose log this node lost and has not got back: kept on disk, so that a restart does not forget it. */
import type { Group } from '../group/group.ts';
import { type ShardStorage, StorageFullError } from './ports.ts';

export class LostGroups {
  readonly #storage: ShardStorage;
  readonly #groups: readonly Group[];
  /** As the disk has them. */
  readonly #lost = new Set<number>();

  readonly #noticed: () => void;

  /** `noticed` is called when more groups are lost than before. */
  constructor(storage: ShardStorage, groups: readonly Group[], noticed: () => void) {
    this.#storage = storage;
    this.#groups = groups;
    this.#noticed = noticed;
    for (const { id } of groups) if (storage.lost(id) !== 0) this.#lost.add(id);
  }

  /** All logs are lost. */
  declare(): void {
    for (const { raft } of this.#groups) raft.loseLog();
    this.look();
  }

  /**
   * Once a turn. A node that lost its log and was restored by a leader may vote again, also after a restart. A node
   * whose leader showed that the log is an older copy may not.
   */
  look(): void {
    for (const { id, raft } of this.#groups) {
      if (raft.mayVote !== this.#lost.has(id)) continue;
      if (!raft.mayVote) this.#noticed();
      try {
        this.#storage.setLost([id], raft.mayVote ? 0 : 1);
      } catch (error) {
        if (!(error instanceof StorageFullError)) throw error;
        // Until then it is in memory; the next turn tries again.
        return;
      }
      if (raft.mayVote) this.#lost.delete(id);
      else this.#lost.add(id);
    }
  }
}
