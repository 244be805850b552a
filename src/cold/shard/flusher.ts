/**
 * Moves hot bytes of the groups that this node leads to the cold store: collect some complete rows into an object,
 * upload it, and publish it with a FLUSH command. One job per group, so each begins where the previous one ended.
 *
 * Its safety rests on the order: bytes leave the nodes when the command is applied, and the command is proposed only
 * when the object is in the store, by the leader that collected it and in the same term. Objects are never deleted
 * here: when the outcome of an upload or command is unknown, the object stays, the next attempt uses a new id, and the
 * sweep finds unreferenced objects.
 */
import { planted } from '../../base/planted.ts';
import { RowDamage } from '../../base/row-damage.ts';
import type { Group } from '../../group/group.ts';
import { Random } from '../../raft/random.ts';
import { type FlushPlan, nextFlush } from '../../stream/cold/flush-plan.ts';
import { DIGEST_BYTES, type ObjectId } from '../../protocol/cold.ts';
import { commandFor } from '../../protocol/command-request.ts';
import { NO_ORIGIN, objectKey } from '../../protocol/object-key.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { ColdOutcome } from '../ports.ts';
import type { ProposalOutcome } from './proposals.ts';
import { Avoided, BackOff, DAMAGED_MS, type NextVisit, OwnObjects, type PartOptions, TurnLoop } from './turn-loop.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/** Interval of checks for bytes that have become old enough; at least four times per flush interval. */
const LOOK_MS = 250;
const LOOK_MS_MIN = 5;
/**
 * Ages use the wall clock of the leader at that time. If it was ahead, or is set back, bytes look too young for that
 * long; so everything is flushed at this interval of the monotonic clock.
 */
const EVERYTHING_MS = 60_000;
const NS_PER_MS = 1_000_000;

/** An operator's request to flush one stream now. */
export interface FlushCall {
  readonly stream: Uint8Array;
  readonly maxBytes: number;
  done: 'flushed' | 'nothing' | 'failed' | 'unconfirmed' | 'damaged' | 'leader-lost' | undefined;
  reason: string;
}

interface Job {
  readonly group: Group;
  readonly term: number;
  readonly object: ObjectId;
  readonly key: string;
  readonly plan: FlushPlan;
  /** Size of the object; the plan's body has been transferred. */
  readonly bytes: number;
  readonly startedMs: number;
  readonly call: FlushCall | undefined;
  /** The digests of the slices, one behind the other; undefined until the object is in the store. */
  digests: Uint8Array | undefined;
  proposedMs: number;
}

class Damaged extends Avoided {
  /** Hot bytes, all of them in such streams. */
  bytes = 0;
}

interface Work {
  readonly group: Group;
  readonly backOff: BackOff;
  readonly calls: FlushCall[];
  /** Streams with rows that the disk changed: they stay on the nodes, and the others move. */
  readonly damaged: Damaged;
  job: Job | undefined;
  /** The store rejected the last upload. */
  refused: boolean;
  /** The group's origin is being established. */
  claiming: boolean;
  /** When everything is flushed next, whatever its age. */
  everythingAtMs: number;
}

export interface FlusherOptions extends PartOptions {
  /** Slices of the group were published. */
  readonly onPublished: (group: Group, slices: FlushPlan['slices']) => void;
}

export class Flusher extends TurnLoop<Work> {
  readonly counters = {
    cold_flush_uploads: 0,
    cold_flush_upload_bytes: 0,
    cold_flush_upload_ns: 0,
    cold_flush_write_errors: 0,
    cold_pack_uploads: 0,
    cold_pack_bytes: 0,
    cold_pack_slices: 0,
    cold_flush_publishes: 0,
    cold_flush_publish_bytes: 0,
    cold_flush_publish_ns: 0,
    cold_flush_stale: 0,
    cold_flush_forgotten: 0,
    cold_pressure_flush_passes: 0,
    cold_pressure_flush_candidates: 0,
  };
  readonly #options: FlusherOptions;
  readonly #lookMs: number;
  /** Unanswered uploads, including those whose job was dropped: their memory is in use. */
  uploading = 0;
  /** Objects of running jobs. */
  readonly own: OwnObjects;

  constructor(options: FlusherOptions) {
    const random = new Random(options.seed);
    const works = options.groups.map((group): Work => ({
      group,
      backOff: new BackOff(random),
      calls: [],
      damaged: new Damaged(),
      job: undefined,
      refused: false,
      claiming: false,
      everythingAtMs: options.settings.flushIntervalMs + EVERYTHING_MS,
    }));
    super(works);
    for (const { group, damaged } of works) group.admission.heed(damaged);
    this.#options = options;
    this.own = new OwnObjects(options.settings.run, options.nextSeq);
    this.#lookMs = Math.max(LOOK_MS_MIN, Math.min(LOOK_MS, options.settings.flushIntervalMs / 4));
  }

  #uploaded(job: Job, outcome: ColdOutcome<'put'>): void {
    this.uploading--;
    const work = this.works.find((one) => one.job === job);
    if (!outcome.ok) {
      this.own.end(job.object);
      this.counters.cold_flush_write_errors++;
      if (work === undefined) return;
      work.refused = true;
      work.backOff.failed(this.clockMs);
      this.#end(work, 'failed', outcome.message);
      return;
    }
    this.counters.cold_flush_uploads++;
    this.counters.cold_flush_upload_bytes += job.bytes;
    this.counters.cold_flush_upload_ns += this.#nsSince(job.startedMs);
    for (const other of this.works) {
      other.backOff.hope();
      other.refused = false;
    }
    // The next turn proposes it; for a dropped job this ends its ownership of the object.
    if (work === undefined) this.own.end(job.object);
    else job.digests = outcome.value;
  }

  /** The call is answered through `done`, in one of the next turns. */
  call(group: Group, call: FlushCall): void {
    const work = this.works.find((one) => one.group === group);
    if (work === undefined) return;
    work.calls.push(call);
    this.wake(work);
  }

  /** It leads the group and has bytes to flush, but the store rejects them. */
  isFailing(group: Group): boolean {
    const refused = this.works.find((one) => one.group === group)?.refused === true;
    return refused && group.leads && group.state.hotBytes > 0;
  }

  /** Queued calls. */
  callsOf(group: Group): number {
    return this.works.find((one) => one.group === group)?.calls.length ?? 0;
  }

  protected override settle(work: Work): void {
    const { group, job } = work;
    if (job === undefined) return;
    if (!group.leads || group.raft.term !== job.term) {
      this.counters.cold_flush_forgotten++;
      if (planted('deleted-on-ambiguous-commit'))
        this.#options.port.ask({ op: 'remove', keys: [job.key] }, () => undefined);
      if (job.digests !== undefined && job.proposedMs < 0) this.own.end(job.object);
      this.#end(work, 'leader-lost', '');
    } else if (job.digests !== undefined && job.proposedMs < 0 && group.accepts) {
      this.#publish(work, job, job.digests);
    }
  }

  /** Gathering reads and copies a whole object: at most one in a turn, so that appends do not wait for several. */
  protected override visit(work: Work): NextVisit {
    return this.#start(work) ? 'took-turn' : this.clockMs + this.#lookMs;
  }

  /** True when a job was started. */
  #start(work: Work): boolean {
    const { group, calls, damaged } = work;
    damaged.bytes = group.leads && damaged.any ? Math.min(damaged.bytes, group.state.hotBytes) : 0;
    if (!group.leads) {
      for (const call of calls.splice(0)) call.done = 'leader-lost';
      return false;
    }
    if (work.job !== undefined || work.claiming || !group.accepts || group.state.hotBytes === 0) {
      for (const call of group.state.hotBytes === 0 ? calls.splice(0) : []) call.done = 'nothing';
      return false;
    }
    if (this.uploading >= this.#options.settings.uploadsMax) return false;
    if (calls.length === 0 && this.clockMs < work.backOff.notBeforeMs) return false;
    if (group.state.cold.origin === NO_ORIGIN) {
      this.#claim(work);
      return false;
    }
    const call = calls.shift();
    const plan = call === undefined ? this.#gather(work) : this.#gatherOne(group, call);
    if (plan === undefined) {
      if (call !== undefined) call.done ??= 'nothing';
      return false;
    }
    this.#upload(work, plan, call);
    return true;
  }

  #gather(work: Work): FlushPlan | undefined {
    const { settings, short } = this.#options;
    const { group, damaged } = work;
    const { admission, state } = group;
    const overdue = this.clockMs >= work.everythingAtMs;
    if (overdue) work.everythingAtMs = this.clockMs + settings.flushIntervalMs + EVERYTHING_MS;
    const pressure = admission.underPressure(state) || short();
    const everything = pressure || overdue || admission.movableBytes(state) >= settings.flushBytes;
    let isSettled = everything && damaged.any;
    const plan = nextFlush(state, {
      hotBeforeMs: everything ? Infinity : this.nowMs - settings.flushIntervalMs,
      maxBytes: settings.flushBytesMax,
      damaged: {
        has: (incarnation) => damaged.has(incarnation, this.clockMs),
        add: (incarnation) => {
          isSettled = false;
          damaged.add(incarnation, this.clockMs + DAMAGED_MS);
        },
      },
    });
    // All others have moved.
    if (plan === undefined && isSettled) damaged.bytes = state.hotBytes;
    if (pressure && plan !== undefined) {
      this.counters.cold_pressure_flush_passes++;
      this.counters.cold_pressure_flush_candidates += plan.slices.length;
    }
    return plan;
  }

  #gatherOne(group: Group, call: FlushCall): FlushPlan | undefined {
    try {
      return nextFlush(group.state, { hotBeforeMs: Infinity, maxBytes: call.maxBytes, only: call.stream });
    } catch (error) {
      if (!(error instanceof RowDamage)) throw error;
      call.done = 'damaged';
      return undefined;
    }
  }

  /**
   * Before its very first upload a group establishes the prefix of all its objects with an empty flush: the sweep looks
   * for orphans only there.
   */
  #claim(work: Work): void {
    const { settings, proposals } = this.#options;
    work.claiming = true;
    // A number that no upload has.
    const object = { run: settings.run, seq: 0 };
    const key = objectKey(work.group.id, settings.run, '', 0, object);
    const fields = commandFor(COMMANDS.flush, { bucket: '', object, key, bytes: 0, slices: [] });
    proposals.propose(work.group, fields, this.nowMs, () => {
      work.claiming = false;
      this.wake();
    });
  }

  #upload(work: Work, plan: FlushPlan, call: FlushCall | undefined): void {
    const { group } = work;
    const object = this.own.begin();
    const key = objectKey(group.id, group.state.cold.origin, plan.bucket, plan.incarnation, object);
    const job: Job = {
      group,
      term: group.raft.term,
      object,
      key,
      plan,
      bytes: plan.body.length,
      startedMs: this.clockMs,
      call,
      digests: undefined,
      proposedMs: -1,
    };
    work.job = job;
    this.uploading++;
    const slices = plan.slices.map(({ at, length }) => ({ at, length }));
    this.#options.port.ask({ op: 'put', key, body: plan.body, slices }, (outcome) => this.#uploaded(job, outcome));
  }

  #publish(work: Work, job: Job, digests: Uint8Array): void {
    const { plan, object, key } = job;
    job.proposedMs = this.clockMs;
    const fields = commandFor(COMMANDS.flush, {
      bucket: plan.bucket,
      object,
      key,
      bytes: job.bytes,
      slices: plan.slices.map((slice, i) => {
        const digest = digests.subarray(i * DIGEST_BYTES, (i + 1) * DIGEST_BYTES);
        return { ...slice, digest };
      }),
    });
    this.#options.proposals.propose(work.group, fields, this.nowMs, (outcome, reply) =>
      this.#published(work, job, outcome, reply),
    );
  }

  #published(work: Work, job: Job, outcome: ProposalOutcome, reply: Reply): void {
    this.own.end(job.object);
    if (work.job !== job) return;
    if (outcome !== 'applied') {
      work.backOff.failed(this.clockMs);
      this.#end(work, 'unconfirmed', '');
      return;
    }
    if (COMMANDS.flush.result.read(reply).slicesAccepted === 0) {
      // Deleted or moved meanwhile. If that ever repeats, it repeats slowly.
      this.counters.cold_flush_stale++;
      work.backOff.failed(this.clockMs);
    } else {
      this.#count(job);
      work.backOff.succeeded();
      this.#options.onPublished(work.group, job.plan.slices);
    }
    this.#end(work, 'flushed', '');
  }

  #nsSince(clockMs: number): number {
    return Math.round((this.clockMs - clockMs) * NS_PER_MS);
  }

  #count({ plan, bytes, proposedMs }: Job): void {
    const { counters } = this;
    counters.cold_flush_publishes++;
    counters.cold_flush_publish_bytes += plan.bytes;
    counters.cold_flush_publish_ns += this.#nsSince(proposedMs);
    if (plan.incarnation !== 0) return;
    counters.cold_pack_uploads++;
    counters.cold_pack_bytes += bytes;
    counters.cold_pack_slices += plan.slices.length;
  }

  /** The group is free for its next job, which may be due immediately. */
  #end(work: Work, how: NonNullable<FlushCall['done']>, reason: string): void {
    const call = work.job?.call;
    work.job = undefined;
    this.wake();
    if (call === undefined) return;
    call.done = how;
    call.reason = reason;
  }
}
