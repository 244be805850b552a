/**
 * What a node acknowledged or showed it shows again after a restart. Applied state on disk is a checkpoint, up to half a second
 * old; the log behind it is there, but how much of it is committed only a leader can tell. So a group shows nothing before it
 * has applied the log that it started with: all that the process before can have applied was in it.
 *
 * The end of that log may never be committed: then a leader cuts it off, and the bound falls with it. A node that lost its log
 * does not know what it acknowledged: it shows nothing before it was restored, and then as much as it had been restored with. That
 * it lost its log a node may learn later, from its peers.
 */
import { planted } from '../base/planted.ts';
import type { Group } from '../group/group.ts';

export class RecoveryBarrier {
  /** Groups that are behind, and the index that they must have applied. */
  readonly #bounds = new Map<Group, number>();

  readonly #groups: readonly Group[];

  constructor(groups: readonly Group[]) {
    this.#groups = groups;
    for (const group of groups) this.#bounds.set(group, group.raft.mayVote ? group.raft.lastIndex : Infinity);
    this.observe();
  }

  /** Every group shows what it has. */
  get done(): boolean {
    return this.#bounds.size === 0;
  }

  isBehind(group: Group): boolean {
    return this.#bounds.has(group) && !planted('reads-not-held');
  }

  /** None of the logs is what it was. */
  lose(): void {
    for (const group of this.#groups) if (!group.raft.mayVote) this.#bounds.set(group, Infinity);
  }

  /** Once a turn, after apply. */
  observe(): void {
    for (const [group, before] of this.#bounds) {
      const { mayVote, lastIndex } = group.raft;
      // Between two turns the log may be cut and grow again. Then the bound is too high, and met a little later.
      const bound = mayVote ? Math.min(before, lastIndex) : before;
      if (group.state.appliedIndex >= bound) this.#bounds.delete(group);
      else this.#bounds.set(group, bound);
    }
  }
}
