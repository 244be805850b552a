/**
 * Groups in which a row was met that the disk changed. A read or a write that needs such a row is refused, and so is
 * only that one. When applying an entry meets it, the group stops on this node: what is applied after it would differ
 * from the other replicas. Its consensus goes on, for its log is sound: it votes, acknowledges, and leads while
 * no other node can.
 *
 * Other nodes have these rows as they were written: where there are any, one of them leads, and sends its state
 * (raft/repair.ts).
 */
import { compareBytes, viewOf } from '../base/bytes.ts';
import type { ErrorCode } from '../base/errors.ts';
import { toHex } from '../base/hex.ts';
import { RowDamage } from '../base/row-damage.ts';
import { DAMAGED_MS } from '../cold/shard/turn-loop.ts';
import type { Group } from '../group/group.ts';
import { TAG, taggedKey } from '../stream/core/keys.ts';
import type { Commits } from './commits.ts';
import { Comparison } from './comparison.ts';
import { passOn } from './hand-over.ts';
import type { Entry } from '../raft/types.ts';
import type { Log, ShardStorage } from './ports.ts';
import type { Replication } from './replication.ts';
import { SCRUB, Scrub, type ScrubPace } from './scrub.ts';

/** Rows that are told apart for the log and the metrics: some 100 bytes each. */
const ROWS_MAX = 1000;

const MET = 'the disk changed a row of the state: what needs it is refused';
const STOPPED = 'a row that an entry needs was changed by the disk: the group stops on this node';
const DIFFERING =
  'this node has other rows of a group than most replicas: the group stops until a leader sent its state';
const UNOPENED = 'a row about the whole group was changed by the disk: the group is not opened on this node';
/** Log sentence for operators. */
export const REPAIRED = 'the state of a group that the disk had changed was replaced by that of its leader';

interface DamagedGroupsOptions {
  readonly groups: readonly Group[];
  readonly nodeId: number;
  readonly replication: Pick<Replication, 'cancelSnapshots' | 'comparable' | 'compare'>;
  readonly commits: Pick<Commits, 'checkpointMs' | 'isWriting' | 'lastCheckpoint'>;
  /** Groups that the start could not open, and why. */
  readonly damages: ReadonlyMap<Group, RowDamage>;
  readonly storage: Pick<ShardStorage, 'onDamage' | 'openRanges' | 'scrub' | 'tx'>;
  readonly scrub?: ScrubPace | undefined;
  readonly log: Log;
  /** Makes the group's state what the store has. */
  readonly reload: (group: Group) => void;
  /** Sets the election priorities of all groups as if none were damaged. */
  readonly settle: () => void;
}

/** Rows that are looked at in a tick: some microseconds each. */
const LOOKS = 16;

interface DamagedRow {
  readonly key: Uint8Array;
  /** Undefined: it is the shard's own. */
  readonly group: Group | undefined;
}

export class DamagedGroups {
  readonly #options: DamagedGroupsOptions;
  /** With rows that the disk changed. */
  readonly #damaged = new Set<Group>();
  /** Those of them that apply nothing. */
  readonly #stopped = new Set<Group>();
  /** Damaged rows by their keys in hexadecimal. */
  readonly #rows = new Map<string, DamagedRow>();
  /** Those in which unasked work met one. */
  readonly #aloneUntilMs = new Map<Group, number>();
  #repaired = 0;
  /** Those whose rows differ from what most replicas have. */
  readonly #differing = new Set<Group>();
  readonly #scrub: Scrub;
  readonly comparison: Comparison;

  constructor(options: DamagedGroupsOptions) {
    this.#options = options;
    options.storage.onDamage = (damage) => this.#notice(damage);
    this.#scrub = new Scrub(options.storage, options.scrub);
    this.comparison = new Comparison({
      ...options,
      pace: options.scrub ?? SCRUB,
      isDamaged: (group) => this.#damaged.has(group) || !group.raft.mayVote,
      differs: (group) => this.#differs(group),
    });
    for (const [group, { key, message: why }] of options.damages) {
      this.#damaged.add(group);
      this.#stopped.add(group);
      this.#rows.set(toHex(key), { key, group });
      options.log('error', UNOPENED, { group: group.id, why });
    }
  }

  get counters() {
    const [damagedRows, stoppedGroups, differingGroups] = [this.#rows.size, this.#stopped.size, this.#differing.size];
    const { counters: compared } = this.comparison;
    return {
      ...{ damagedRows, stoppedGroups, differingGroups, repairedGroups: this.#repaired },
      ...{ ...this.#scrub.counters, ...compared },
    };
  }

  /** Undefined: any of them. */
  hasStopped(group: Group | undefined): boolean {
    return group === undefined ? this.#stopped.size > 0 : this.#stopped.has(group);
  }

  #notice({ key, message: why }: RowDamage): void {
    // A leaf that the disk changed may have any key.
    const prefix = key.length < 2 ? undefined : viewOf(key).getUint16(0);
    const group = this.#options.groups.find(({ state }) => state.prefix === prefix);
    if (group !== undefined) {
      this.#damaged.add(group);
      // The next checkpoint writes it again from memory.
      if (compareBytes(key, taggedKey(group.state.prefix, TAG.meta)) === 0) group.state.dirtyBytes++;
    }
    const name = toHex(key);
    if (this.#rows.size >= ROWS_MAX || this.#rows.has(name)) return;
    this.#rows.set(name, { key, group });
    this.#options.log('error', MET, { group: group?.id, why });
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

  /** Work that no request asked for. A group with such a row is left alone for a while: it would be met every time. */
  unasked(group: Group, clockMs: number, work: () => void): void {
    if (this.#stopped.has(group) || clockMs < (this.#aloneUntilMs.get(group) ?? 0)) return;
    if (this.caught(work) !== undefined) this.#aloneUntilMs.set(group, clockMs + DAMAGED_MS);
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
      this.#stop(group, STOPPED, error.message);
      return 0;
    }
  }

  /** A group snapshot replaced its rows. */
  restored(group: Group): void {
    this.#stopped.delete(group);
    if (!this.#damaged.has(group)) return;
    this.#forget(group);
    this.#repaired++;
    this.#options.log('info', REPAIRED, { group: group.id, appliedIndex: group.state.appliedIndex });
  }

  /** Which of its rows are wrong is not known. */
  #differs(group: Group): void {
    if (this.#stopped.has(group)) return;
    this.#differing.add(group);
    this.#stop(group, DIFFERING);
  }

  /** Its state in memory is half changed, or wrong: nothing is written of it. */
  #stop(group: Group, sentence: string, why?: string): void {
    // No read has told of a row that is missing.
    this.#damaged.add(group);
    this.#stopped.add(group);
    this.#options.log('error', sentence, { group: group.id, appliedIndex: group.state.appliedIndex, why });
    this.#options.replication.cancelSnapshots(group);
    this.#options.reload(group);
    group.watchers.refuse('ROW_DAMAGED');
    this.#ask();
  }

  /** Once a tick. */
  tick(clockMs: number): void {
    this.#scrub.tick(clockMs);
    this.comparison.tick(clockMs);
    if (this.#rows.size > 0) this.#lookAgain();
    this.#ask();
  }

  /** A row that was written again, or deleted, is none of them any more. */
  #lookAgain(): void {
    for (const [name, row] of [...this.#rows].slice(0, LOOKS)) {
      const isDamaged = this.caught(() => void this.#options.storage.tx.get(row.key)) !== undefined;
      this.#rows.delete(name);
      // Behind all others.
      if (isDamaged) this.#rows.set(name, row);
    }
    for (const group of this.#damaged) {
      const isSound = [...this.#rows.values()].every((row) => row.group !== group);
      // Some of its rows may have found no place.
      const areAllKnown = this.#rows.size < ROWS_MAX;
      if (isSound && areAllKnown && !this.#stopped.has(group)) this.#forget(group);
    }
  }

  #forget(group: Group): void {
    this.#damaged.delete(group);
    this.#differing.delete(group);
    group.raft.wantState(false);
    this.#options.settle();
    for (const [name, row] of this.#rows) if (row.group === group) this.#rows.delete(name);
  }

  /** Other voters lead these groups, if they can, and are asked for their state. */
  #ask(): void {
    for (const group of this.#damaged) {
      // Not 'none': its log may be the longest of those that are left, and then no other node can lead.
      if (group.raft.electionPriority === 'normal') group.raft.electionPriority = 'low';
      group.raft.wantState(true);
      passOn(group);
    }
  }
}
