/**
 * Deletes objects that nothing refers to: those in the replicated GC queue, some time after they were queued, by the
 * leader. Entries stay in the queue until their objects are known to be gone, so a node that stops in between leaves
 * nothing behind. Deleting twice is harmless, because a key is never reused.
 */
import { planted } from '../../base/planted.ts';
import type { Group } from '../../group/group.ts';
import { Random } from '../../raft/random.ts';
import { gcDue } from '../state/objects.ts';
import { encodeGcList } from '../../protocol/cold.ts';
import { newCommandFields } from '../../protocol/command.ts';
import { isOwnObject } from '../../protocol/object-key.ts';
import { BackOff } from './back-off.ts';
import type { ColdPort, ColdSettings, RemoveAnswer } from './port.ts';
import type { Proposals } from './proposals.ts';
import { COMMANDS } from '../../protocol/operations.ts';

interface Lane {
  readonly group: Group;
  readonly backOff: BackOff;
  nextAtMs: number;
  /** Entries whose objects are being deleted, or whose removal from the queue is being proposed. */
  job: Job | undefined;
}

interface Job {
  readonly seqs: readonly number[];
  /** Objects to delete; those of another cluster are only forgotten. */
  readonly objects: number;
  /** More were due than one pass handles. */
  readonly more: boolean;
  state: 'deleting' | 'deleted' | 'proposed';
}

export interface CollectorOptions {
  readonly groups: readonly Group[];
  readonly port: ColdPort;
  readonly settings: ColdSettings;
  readonly proposals: Proposals;
  readonly seed: number;
  readonly nextId: () => number;
}

export class Collector {
  readonly counters = { reclaimed: 0, errors: 0 };
  readonly #options: CollectorOptions;
  readonly #lanes: readonly Lane[];
  readonly #asked = new Map<number, { readonly lane: Lane; readonly job: Job }>();
  #dueAtMs = 0;
  #clockMs = 0;

  constructor(options: CollectorOptions) {
    this.#options = options;
    const random = new Random(options.seed);
    this.#lanes = options.groups.map((group) => ({
      group,
      backOff: new BackOff(random),
      // Spread, so that not all groups run in the same turn.
      nextAtMs: random.below(Math.ceil(options.settings.gcIntervalMs)),
      job: undefined,
    }));
  }

  get dueAtMs(): number {
    return this.#dueAtMs;
  }

  turn(nowMs: number, clockMs: number): void {
    this.#clockMs = clockMs;
    if (clockMs < this.#dueAtMs) return;
    this.#dueAtMs = Infinity;
    for (const lane of this.#lanes) {
      this.#work(lane, nowMs, clockMs);
      if (lane.job === undefined) this.#dueAtMs = Math.min(this.#dueAtMs, this.#readyAtMs(lane));
    }
  }

  onRemoved(id: number, answer: RemoveAnswer): void {
    const asked = this.#asked.get(id);
    if (asked === undefined) return;
    this.#asked.delete(id);
    const { lane, job } = asked;
    this.#dueAtMs = 0;
    if (answer.error === undefined || planted('forgotten-before-removed')) {
      job.state = 'deleted';
      return;
    }
    this.counters.errors++;
    lane.backOff.failed(this.#clockMs);
    lane.job = undefined;
  }

  #readyAtMs(lane: Lane): number {
    return Math.max(lane.nextAtMs, lane.backOff.notBeforeMs);
  }

  #work(lane: Lane, nowMs: number, clockMs: number): void {
    const { group, job } = lane;
    if (job?.state === 'deleted') {
      if (!group.leads) this.#end(lane, 0);
      else if (group.accepts) this.#confirm(lane, job, nowMs);
      else this.#dueAtMs = Math.min(this.#dueAtMs, clockMs + 1);
      return;
    }
    if (job !== undefined || clockMs < this.#readyAtMs(lane)) return;
    lane.nextAtMs = clockMs + this.#options.settings.gcIntervalMs;
    // A backup being taken here refers to objects that existed when it began.
    if (group.leads && group.exports === 0 && group.state.cold.gcLength > 0) this.#begin(lane, nowMs);
  }

  #begin(lane: Lane, nowMs: number): void {
    const { port, settings, nextId } = this.#options;
    const { state } = lane.group;
    const deadlines = { usualMs: nowMs - settings.gcGraceMs, mergedMs: nowMs - settings.mergedGraceMs };
    const due = gcDue(state, deadlines, settings.gcEntriesMax);
    if (due.length === 0) return;
    const keys = due.map(({ key }) => key).filter((key) => isOwnObject(key, state.group, state.cold.origin));
    const job: Job = {
      seqs: due.map(({ seq }) => seq),
      objects: keys.length,
      more: due.length === settings.gcEntriesMax,
      state: keys.length === 0 ? 'deleted' : 'deleting',
    };
    lane.job = job;
    if (keys.length === 0) {
      this.#dueAtMs = 0;
      return;
    }
    const id = nextId();
    this.#asked.set(id, { lane, job });
    port.remove({ id, keys: planted('gc-without-removal') ? keys.slice(1) : keys });
  }

  #confirm(lane: Lane, job: Job, nowMs: number): void {
    job.state = 'proposed';
    const fields = newCommandFields();
    fields.kind = COMMANDS.gcDone.number;
    fields.payload = encodeGcList(job.seqs);
    this.#options.proposals.propose(lane.group, fields, nowMs, (outcome) => {
      if (outcome !== 'applied') return this.#end(lane, 0);
      this.counters.reclaimed += job.objects;
      lane.backOff.succeeded();
      return this.#end(lane, job.more ? -Infinity : 0);
    });
  }

  #end(lane: Lane, nextAtMs: number): void {
    lane.job = undefined;
    if (nextAtMs < 0) lane.nextAtMs = nextAtMs;
    this.#dueAtMs = 0;
  }
}
