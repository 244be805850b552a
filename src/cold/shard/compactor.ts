/**
 * Merges small chunks of the groups that this node leads: a stream that grows slowly leaves one per flush interval. A
 * job is planned from the state (stream/cold/compaction-plan.ts), executed by the pool, and published with a COMPACT
 * command. No client waits for it, so it has the lowest priority: one job per group, few per shard, none while bytes
 * must be flushed.
 *
 * Its safety rests on the same order as for flushes: the command is proposed only when the object is in the store, by
 * the leader that planned it and in the same term; an object of unknown outcome is left to the sweep. Old chunks stay
 * readable for the GC's grace period.
 */
import type { Group } from '../../group/group.ts';
import { Random } from '../../raft/random.ts';
import { type CompactPlan, isSmall, nextCompaction } from '../../stream/cold/compaction-plan.ts';
import type { FlushPlan } from '../../stream/cold/flush-plan.ts';
import { type ObjectId, type Slice } from '../../protocol/cold.ts';
import { commandFor } from '../../protocol/command-request.ts';
import { NO_ORIGIN, objectKey } from '../../protocol/object-key.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { ColdOutcome } from '../ports.ts';
import { Candidates } from './candidates.ts';
import type { ProposalOutcome } from './proposals.ts';
import { BackOff, type NextVisit, OwnObjects, type PartOptions, TurnLoop } from './turn-loop.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/** Concurrent jobs of a shard, each of another group. */
const JOBS_MAX = 2;
/** Interval of checks per group, unless bytes are flushed more often. */
const LOOK_MS = 1000;
/** Chunk rows read per turn, at some microseconds each. */
const LOOKS = 1024;
/** Size of one object. */
const JOB_BYTES_MAX = 8 * 1024 * 1024;
/** Interval of reports about a missing or bad source. */
const REPORT_MS = 60_000;

interface Job {
  readonly term: number;
  readonly object: ObjectId;
  readonly key: string;
  readonly plan: CompactPlan;
  merged: { readonly slices: readonly Slice[]; readonly bytes: number; readonly chunks: number } | undefined;
  isProposed: boolean;
}

interface Work {
  readonly group: Group;
  readonly backOff: BackOff;
  readonly candidates: Candidates;
  job: Job | undefined;
}

export class Compactor extends TurnLoop<Work> {
  readonly counters = {
    cold_compaction_jobs: 0,
    cold_compaction_publishes: 0,
    cold_compaction_bytes: 0,
    cold_compaction_chunks_merged: 0,
    cold_compaction_chunks_written: 0,
    cold_compaction_errors: 0,
    cold_compaction_bad_sources: 0,
    cold_compaction_stale: 0,
    cold_compaction_forgotten: 0,
    cold_compaction_dropped: 0,
  };
  readonly #options: PartOptions;
  readonly #random: Random;
  readonly #lookMs: number;
  /** Unanswered merges, including those whose job was dropped. */
  running = 0;
  /** Objects of running jobs. */
  readonly own: OwnObjects;
  #reportAtMs = -Infinity;

  constructor(options: PartOptions) {
    const random = new Random(options.seed);
    const works = options.groups.map((group): Work => ({
      group,
      backOff: new BackOff(random),
      candidates: new Candidates(),
      job: undefined,
    }));
    super(works);
    this.#options = options;
    this.#random = random;
    this.own = new OwnObjects(options.settings.run, options.nextSeq);
    this.#lookMs = Math.min(LOOK_MS, options.settings.flushIntervalMs);
  }

  override get dueAtMs(): number {
    const isIdle = this.works.every(({ candidates, job }) => candidates.size === 0 && job === undefined);
    return isIdle ? Infinity : super.dueAtMs;
  }

  /** Streams that may have something to merge. */
  get candidates(): number {
    return this.works.reduce((sum, { candidates }) => sum + candidates.size, 0);
  }

  /** A flush of the group was published. */
  flushed(group: Group, slices: FlushPlan['slices']): void {
    const { compactRunMin } = this.#options.settings;
    if (compactRunMin === 0) return;
    // Several flushes are needed before a merge. Ignoring half of them on average saves the memory of tracking all
    // streams.
    if (this.#random.below(Math.ceil(compactRunMin / 2)) !== 0) return;
    const work = this.works.find((one) => one.group === group);
    for (const slice of slices) {
      // All streams of an object or none: streams whose chunks are adjacent are merged together and read with one
      // request. Individually they took a request for nearly every chunk.
      if (!isSmall(slice)) continue;
      if (work?.candidates.add(slice.incarnation, slice.stream, this.clockMs) === false)
        this.counters.cold_compaction_dropped++;
    }
  }

  #merged(job: Job, outcome: ColdOutcome<'merge'>): void {
    this.running--;
    this.wake();
    const work = this.works.find((one) => one.job === job);
    if (!outcome.ok || outcome.value.bytes === 0 || work === undefined) this.own.end(job.object);
    if (!outcome.ok) this.counters.cold_compaction_errors++;
    if (work === undefined) return;
    if (!outcome.ok) {
      this.#again(work, job);
      return;
    }
    const answer = outcome.value;
    work.backOff.succeeded();
    const slices: Slice[] = [];
    let chunks = 0;
    for (const [i, { refs, ...slice }] of job.plan.slices.entries()) {
      const merged = answer.slices[i];
      if (merged === undefined || 'failed' in merged) {
        this.#isBad(work, slice.incarnation, merged?.failed ?? 'no answer');
        continue;
      }
      chunks += refs.length;
      slices.push({ ...slice, ...merged });
    }
    if (answer.bytes === 0) work.job = undefined;
    // The next turn proposes it.
    else job.merged = { slices, bytes: answer.bytes, chunks };
  }

  #isBad(work: Work, incarnation: number, reason: string): void {
    this.counters.cold_compaction_bad_sources++;
    work.candidates.avoid(incarnation, this.clockMs);
    if (this.clockMs < this.#reportAtMs) return;
    this.#reportAtMs = this.clockMs + REPORT_MS;
    this.#options.log('warn', 'chunks in the cold store cannot be merged; they stay as they are', { reason });
  }

  protected override settle(work: Work): void {
    const { group, job } = work;
    if (job === undefined) return;
    if (!group.leads || group.raft.term !== job.term) {
      this.counters.cold_compaction_forgotten++;
      if (job.merged !== undefined && !job.isProposed) this.own.end(job.object);
      work.job = undefined;
    } else if (job.merged !== undefined && !job.isProposed && group.accepts) {
      this.#publish(work, job, job.merged);
    }
  }

  /** Planning reads rows: at most one plan in a turn. There may be more to do at once. */
  protected override visit(work: Work): NextVisit {
    return this.#start(work) ? 'took-turn' : this.clockMs + this.#lookMs;
  }

  /** True when the state was examined. */
  #start(work: Work): boolean {
    const { group, candidates } = work;
    if (this.running >= JOBS_MAX || candidates.size === 0 || work.job !== undefined) return false;
    if (!group.leads) {
      // Only a leader tracks candidates.
      candidates.clear();
      return false;
    }
    const { state } = group;
    const isReady = group.accepts && state.appliedTerm === group.raft.term && state.cold.origin !== NO_ORIGIN;
    if (!isReady || this.clockMs < work.backOff.notBeforeMs) return false;
    if (group.admission.underPressure(state) || this.#options.short()) return false;
    const streams = candidates.next();
    const { plan, looked } = nextCompaction(state, streams, {
      maxBytes: JOB_BYTES_MAX,
      looks: LOOKS,
      least: this.#options.settings.compactRunMin,
      damaged: { add: (incarnation) => candidates.avoid(incarnation, this.clockMs) },
    });
    candidates.drop(looked);
    if (plan !== undefined) this.#merge(work, plan);
    return true;
  }

  #merge(work: Work, plan: CompactPlan): void {
    const { group } = work;
    const object = this.own.begin();
    const key = objectKey(group.id, group.state.cold.origin, plan.bucket, plan.incarnation, object);
    const job: Job = { term: group.raft.term, object, key, plan, merged: undefined, isProposed: false };
    work.job = job;
    this.running++;
    this.counters.cold_compaction_jobs++;
    const slices = plan.slices.map(({ incarnation, refs }) => ({ incarnation, refs }));
    this.#options.port.ask({ op: 'merge', key, slices }, (outcome) => this.#merged(job, outcome));
  }

  #publish(work: Work, job: Job, { slices, bytes }: NonNullable<Job['merged']>): void {
    const { object, key, plan } = job;
    job.isProposed = true;
    const fields = commandFor(COMMANDS.compact, { bucket: plan.bucket, object, key, bytes, slices });
    this.#options.proposals.propose(work.group, fields, this.nowMs, (outcome, reply) =>
      this.#published(work, job, outcome, reply),
    );
  }

  #published(work: Work, job: Job, outcome: ProposalOutcome, reply: Reply): void {
    this.own.end(job.object);
    if (work.job !== job) return;
    this.wake();
    if (outcome !== 'applied') {
      this.#again(work, job);
      return;
    }
    work.job = undefined;
    const { slices, bytes, chunks } = job.merged as NonNullable<Job['merged']>;
    const { slicesAccepted } = COMMANDS.compact.result.read(reply);
    this.counters.cold_compaction_stale += slices.length - slicesAccepted;
    if (slicesAccepted === 0) return;
    this.counters.cold_compaction_publishes++;
    this.counters.cold_compaction_bytes += bytes;
    this.counters.cold_compaction_chunks_merged += chunks;
    this.counters.cold_compaction_chunks_written += slicesAccepted;
    // The merged chunk may be the sixteenth of its tier.
    this.#remember(work, job);
  }

  /** Later, with a new plan and a new object. */
  #again(work: Work, job: Job): void {
    work.backOff.failed(this.clockMs);
    work.job = undefined;
    this.#remember(work, job);
  }

  #remember({ candidates }: Work, { plan }: Job): void {
    for (const { incarnation, stream } of plan.slices) candidates.add(incarnation, stream, this.clockMs);
  }
}
