/**
 * Groups in which a row was met that the disk changed. A read or a write that needs such a row is refused, and so is
 * only that one. When applying an entry meets it, the group stops on this node: what is applied after it would differ
 * from the other replicas. Its consensus goes on, for its log is sound: it votes and acknowledges, but does not lead.
 */
import type { ErrorCode } from '../base/errors.ts';
import { toHex } from '../base/hex.ts';
import { RowDamage } from '../base/row-damage.ts';
import type { Group } from '../group/group.ts';
import { passOn } from './hand-over.ts';
import type { Entry } from '../raft/types.ts';
import type { Log, ShardStorage } from './ports.ts';

/** Rows that are told apart for the log and the metrics: some 100 bytes each. */
const ROWS_MAX = 1000;

const STOPPED =
  'a row that an entry needs was changed by the disk: the group stops on this node, restore the data directory';

interface DamagedGroupsOptions {
  readonly groups: readonly Group[];
  readonly storage: Pick<ShardStorage, 'onDamage'>;
  readonly log: Log;
  /** Makes the group's state what the store has. */
  readonly reload: (group: Group) => void;
}

export class DamagedGroups {
  readonly #groups: readonly Group[];
  readonly #log: Log;
  readonly #reload: (group: Group) => void;
  readonly #stopped = new Set<Group>();
  readonly #rows = new Set<string>();

  constructor({ groups, storage, log, reload }: DamagedGroupsOptions) {
    this.#groups = groups;
    this.#log = log;
    this.#reload = reload;
    storage.onDamage = (damage) => this.#notice(damage);
  }

  get counters(): { readonly damagedRows: number; readonly stoppedGroups: number } {
    return { damagedRows: this.#rows.size, stoppedGroups: this.#stopped.size };
  }

  /** Undefined: any of them. */
  hasStopped(group: Group | undefined): boolean {
    return group === undefined ? this.#stopped.size > 0 : this.#stopped.has(group);
  }

  #notice({ key, message: why }: RowDamage): void {
    const name = toHex(key);
    if (this.#rows.size >= ROWS_MAX || this.#rows.has(name)) return;
    this.#rows.add(name);
    this.#log('error', 'the disk changed a row of the state: what needs it is refused', { why });
  }

  /** Reads or submits; returns the refusal when that meets such a row. */
  guard(group: Group | undefined, work: () => void): ErrorCode | undefined {
    return this.hasStopped(group) ? 'ROW_DAMAGED' : this.caught(work);
  }

  /** As guard(), whatever has stopped. */
  caught(work: () => void): ErrorCode | undefined {
    try {
      work();
      return undefined;
    } catch (error) {
      if (error instanceof RowDamage) return 'ROW_DAMAGED';
      throw error;
    }
  }

  /** Applies entries, and returns what that returns. A group that has stopped passes over them. */
  apply(group: Group, entries: readonly Entry[], applied: () => number): number {
    if (this.#stopped.has(group)) {
      const last = entries.at(-1);
      if (last !== undefined) group.raft.applied(last.index);
      return 0;
    }
    try {
      return applied();
    } catch (error) {
      if (!(error instanceof RowDamage)) throw error;
      this.#stop(group, error.message);
      return 0;
    }
  }

  /** A group snapshot replaced its rows. */
  restored(group: Group): void {
    if (!this.#stopped.delete(group)) return;
    group.raft.electionPriority = 'normal';
    this.#log('info', 'a group that had stopped at a damaged row was restored by a snapshot', { group: group.id });
  }

  /** Its state in memory is half changed: nothing is written of it. */
  #stop(group: Group, why: string): void {
    this.#stopped.add(group);
    this.#log('error', STOPPED, { group: group.id, appliedIndex: group.state.appliedIndex, why });
    this.#reload(group);
    this.tick();
  }

  /** Once a tick: other voters lead the groups that have stopped here. */
  tick(): void {
    for (const group of this.#groups) {
      if (!this.#stopped.has(group)) continue;
      group.raft.electionPriority = 'none';
      passOn(group);
    }
  }
}
