/**
 * Deletes objects that nothing refers to: those in the replicated GC queue, some time after they were queued, by the
 * leader. Entries stay in the queue until their objects are known to be gone, so a node that stops in between leaves
 * nothing behind. Deleting twice is harmless, because a key is never reused. An entry with a damaged row stays as it
 * is, and so does its object.
 */
import { planted } from '../../base/planted.ts';
import type { RowDamage } from '../../base/row-damage.ts';
import type { Group } from '../../group/group.ts';
import { Random } from '../../raft/random.ts';
import { gcDue } from '../../stream/cold/objects.ts';
import { commandFor } from '../../protocol/command-request.ts';
import { isOwnObject } from '../../protocol/object-key.ts';
import { BackOff, type PartOptions, TurnLoop } from './turn-loop.ts';
import { COMMANDS } from '../../protocol/operations.ts';

const LEFT_OUT = 'objects stay in the cold store, because rows that say when to delete them are damaged';

interface Work {
  readonly group: Group;
  readonly backOff: BackOff;
  nextAtMs: number;
  /** Entries whose objects are being deleted, or whose removal from the queue is being proposed. */
  job: Job | undefined;
  /** Entries that the last pass left out. */
  leftOut: number;
}

interface Job {
  readonly seqs: readonly number[];
  /** Objects to delete; those of another cluster are only forgotten. */
  readonly objects: number;
  /** More were due than one pass handles. */
  readonly more: boolean;
  state: 'deleting' | 'deleted' | 'proposed';
}

export class Collector extends TurnLoop<Work> {
  readonly counters = { cold_gc_reclaimed: 0, cold_gc_errors: 0 };
  readonly #options: PartOptions;

  constructor(options: PartOptions) {
    const random = new Random(options.seed);
    const works = options.groups.map((group): Work => ({
      group,
      backOff: new BackOff(random),
      // Spread, so that not all groups run in the same turn.
      nextAtMs: random.below(Math.ceil(options.settings.gcIntervalMs)),
      job: undefined,
      leftOut: 0,
    }));
    super(works);
    this.#options = options;
  }

  #removed(work: Work, job: Job, isRemoved: boolean): void {
    this.wake();
    if (isRemoved || planted('forgotten-before-removed')) {
      job.state = 'deleted';
      return;
    }
    this.counters.cold_gc_errors++;
    work.backOff.failed(this.clockMs);
    work.job = undefined;
  }

  #readyAtMs(work: Work): number {
    return Math.max(work.nextAtMs, work.backOff.notBeforeMs);
  }

  protected override visit(work: Work): number {
    const { group, job } = work;
    const { nowMs, clockMs } = this;
    if (job?.state === 'deleted') {
      if (!group.leads) this.#end(work, 0);
      else if (group.accepts) this.#confirm(work, job, nowMs);
      else return clockMs + 1;
    } else if (job === undefined && clockMs >= this.#readyAtMs(work)) {
      work.nextAtMs = clockMs + this.#options.settings.gcIntervalMs;
      // A backup that is being taken here refers to objects that were there when it began.
      if (group.leads && group.exports === 0 && group.state.cold.gcLength > 0) this.#begin(work, nowMs);
    }
    return work.job === undefined ? this.#readyAtMs(work) : Infinity;
  }

  #begin(work: Work, nowMs: number): void {
    const { port, settings } = this.#options;
    const { state } = work.group;
    const deadlines = { nowMs, usualMs: nowMs - settings.gcGraceMs, mergedMs: nowMs - settings.mergedGraceMs };
    const damages: RowDamage[] = [];
    const due = gcDue(state, deadlines, settings.gcEntriesMax, damages);
    this.#tell(work, damages);
    if (due.length === 0) return;
    const keys = due.map(({ key }) => key).filter((key) => isOwnObject(key, state.group, state.cold.origin));
    const job: Job = {
      seqs: due.map(({ seq }) => seq),
      objects: keys.length,
      more: due.length === settings.gcEntriesMax,
      state: keys.length === 0 ? 'deleted' : 'deleting',
    };
    work.job = job;
    if (keys.length === 0) {
      this.wake();
      return;
    }
    const removed = planted('gc-without-removal') ? keys.slice(1) : keys;
    port.ask({ op: 'remove', keys: removed }, ({ ok }) => this.#removed(work, job, ok));
  }

  #tell(work: Work, damages: readonly RowDamage[]): void {
    const [first] = damages;
    if (first !== undefined && damages.length !== work.leftOut)
      this.#options.log('warn', LEFT_OUT, { group: work.group.id, objects: damages.length, why: first.message });
    work.leftOut = damages.length;
  }

  #confirm(work: Work, job: Job, nowMs: number): void {
    job.state = 'proposed';
    const fields = commandFor(COMMANDS.gcDone, { seqs: job.seqs });
    this.#options.proposals.propose(work.group, fields, nowMs, (outcome) => {
      if (outcome !== 'applied') return this.#end(work, 0);
      this.counters.cold_gc_reclaimed += job.objects;
      work.backOff.succeeded();
      return this.#end(work, job.more ? -Infinity : 0);
    });
  }

  #end(work: Work, nextAtMs: number): void {
    work.job = undefined;
    if (nextAtMs < 0) work.nextAtMs = nextAtMs;
    this.wake();
  }
}
