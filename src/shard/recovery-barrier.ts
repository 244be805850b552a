/**
 * A node shows after a restart whatever it acknowledged or showed before. Applied state on disk is a checkpoint, up to
 * a second old. The log after it is there, but only a leader can tell how much of it is committed. So a group answers
 * no reads before it has applied the log that it started with, which includes everything the previous process can have
 * applied.
 *
 * The end of that log may never be committed: then a leader truncates it, and the bound falls with it. A node that lost
 * its log does not know what it acknowledged: it answers no reads before it is restored, and then up to what it was
 * restored with. A node may learn only later, from its peers, that it lost its log.
 */
import { planted } from '../base/planted.ts';
import type { Group } from '../group/group.ts';

export class RecoveryBarrier {
  /** Groups that are behind, with the index that they must have applied. */
  readonly #bounds = new Map<Group, number>();

  constructor(groups: readonly Group[]) {
    for (const group of groups) this.#bounds.set(group, group.raft.mayVote ? group.raft.lastIndex : Infinity);
    this.observe();
  }

  /** Whether every group may answer. */
  get done(): boolean {
    return this.#bounds.size === 0;
  }

  isBehind(group: Group): boolean {
    return this.#bounds.has(group) && !planted('reads-not-held');
  }

  /** Its log is lost. */
  lose(group: Group): void {
    this.#bounds.set(group, Infinity);
  }

  /** An older state took the place of the group's: it showed everything that is committed. */
  hold(group: Group): void {
    const { commitIndex } = group.raft;
    const bound = Math.max(commitIndex, this.#bounds.get(group) ?? 0);
    if (group.state.appliedIndex < bound) this.#bounds.set(group, bound);
  }

  /** Once a turn, after apply. */
  observe(): void {
    for (const [group, before] of this.#bounds) {
      const { mayVote, lastIndex } = group.raft;
      // Between two turns the log may be truncated and grow again. Then the bound is too high, and reached a little
      // later.
      const bound = mayVote ? Math.min(before, lastIndex) : before;
      if (group.state.appliedIndex >= bound) this.#bounds.delete(group);
      else this.#bounds.set(group, bound);
    }
  }
}
