/** Groups whose log this node lost and has not got back: kept on disk, so that a restart does not forget it. */
import type { Group } from '../group/group.ts';
import { type ShardStorage, StorageFullError } from './ports.ts';

export class LostGroups {
  readonly #storage: ShardStorage;
  readonly #groups: readonly Group[];
  /** As the disk has them. */
  readonly #lost = new Set<number>();

  readonly #noticed: (group: Group) => void;
  /** Called once the disk has what was declared. */
  #declared: readonly (() => void)[] = [];

  /** `noticed` is called until the disk has it that the group is lost. */
  constructor(storage: ShardStorage, groups: readonly Group[], noticed: (group: Group) => void) {
    this.#storage = storage;
    this.#groups = groups;
    this.#noticed = noticed;
    for (const { id } of groups) if (storage.lost(id) !== 0) this.#lost.add(id);
  }

  /** All logs are lost. `stored` is called once that is on disk. */
  declare(how: 'store' | 'hold', stored: () => void): void {
    for (const { raft } of this.#groups) raft.loseLog();
    this.#declared = [...this.#declared, stored];
    this.look(how);
  }

  /** The disk has all that was declared. */
  get areStored(): boolean {
    return this.#declared.length === 0;
  }

  /**
   * Once a turn, before reads are answered and peers hear of it. A node that lost its log and was restored by a leader
   * may vote again, also after a restart. A node whose leader showed that the log is an older copy may not. A leader
   * that hears of a loss forgets what the node acknowledged, and would take a run that has forgotten the loss for one
   * whose log is whole. So the group is silent until the disk has it. hold: it would take nothing, or keep the shard.
   */
  look(how: 'store' | 'hold'): void {
    for (const group of this.#groups) {
      const { id, raft } = group;
      if (raft.mayVote !== this.#lost.has(id)) continue;
      if (!raft.mayVote) this.#noticed(group);
      if (how === 'store' && this.#store(group)) continue;
      if (!raft.mayVote) raft.dropMessages();
    }
    if (this.areStored || !this.#groups.every(({ id, raft }) => raft.mayVote || this.#lost.has(id))) return;
    const declared = this.#declared;
    this.#declared = [];
    for (const stored of declared) stored();
  }

  /** False: there is no space, and it is in memory only. */
  #store({ id, raft }: Group): boolean {
    try {
      this.#storage.setLost([id], raft.mayVote ? 0 : 1);
    } catch (error) {
      if (!(error instanceof StorageFullError)) throw error;
      return false;
    }
    if (raft.mayVote) this.#lost.delete(id);
    else this.#lost.add(id);
    return true;
  }
}
