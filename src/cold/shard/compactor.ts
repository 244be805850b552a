/**
 * Merges small chunks of the groups that this node leads: a stream that grows slowly leaves one per flush interval. A
 * job is planned from the state (cold/state/compaction-plan.ts), executed by the pool, and published with a COMPACT
 * command. No client waits for it, so it has the lowest priority: one job per group, few per shard, none while bytes
 * must be flushed.
 *
 * Its safety rests on the same order as for flushes: the command is proposed only when the object is in the store, by
 * the leader that planned it and in the same term; an object of unknown outcome is left to the sweep. Old chunks stay
 * readable for the GC's grace period.
 */
import type { Group } from '../../group/group.ts';
import { Random } from '../../raft/random.ts';
import { type CompactPlan, isSmall, nextCompaction } from '../state/compaction-plan.ts';
import type { FlushPlan } from '../state/flush-plan.ts';
import { type ObjectId, type Slice, encodeFlushList } from '../../protocol/cold.ts';
import { newCommandFields } from '../../protocol/command.ts';
import { NO_ORIGIN, objectKey } from '../../protocol/object-key.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { Log } from '../../shard/ports.ts';
import { BackOff } from './back-off.ts';
import { Candidates } from './candidates.ts';
import type { ColdPort, ColdSettings, MergeAnswer } from './port.ts';
import type { Outcome, Proposals } from './proposals.ts';
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

interface Lane {
  readonly group: Group;
  readonly backOff: BackOff;
  readonly candidates: Candidates;
  job: Job | undefined;
}

export interface CompactorOptions {
  readonly groups: readonly Group[];
  readonly port: ColdPort;
  readonly settings: ColdSettings;
  readonly proposals: Proposals;
  readonly seed: number;
  readonly log: Log;
  readonly short: () => boolean;
  readonly nextId: () => number;
  readonly nextSeq: () => number;
}

export class Compactor {
  readonly counters = {
    jobs: 0,
    publishes: 0,
    bytes: 0,
    merged: 0,
    written: 0,
    errors: 0,
    bad: 0,
    stale: 0,
    forgotten: 0,
    dropped: 0,
  };
  readonly #options: CompactorOptions;
  readonly #random: Random;
  readonly #lanes: readonly Lane[];
  readonly #lookMs: number;
  /** Unanswered merges, including those whose job was dropped. */
  readonly #asked = new Map<number, Job>();
  /** Objects being written or proposed, which are not orphans. */
  readonly #own = new Set<number>();
  #next = 0;
  #lookAtMs = 0;
  #nowMs = 0;
  #clockMs = 0;
  #reportAtMs = -Infinity;

  constructor(options: CompactorOptions) {
    this.#options = options;
    this.#random = new Random(options.seed);
    this.#lanes = options.groups.map((group) => ({
      group,
      backOff: new BackOff(this.#random),
      candidates: new Candidates(),
      job: undefined,
    }));
    this.#lookMs = Math.min(LOOK_MS, options.settings.flushIntervalMs);
  }

  get dueAtMs(): number {
    const isIdle = this.#lanes.every(({ candidates, job }) => candidates.size === 0 && job === undefined);
    return isIdle ? Infinity : this.#lookAtMs;
  }

  /** Streams that may have something to merge. */
  get candidates(): number {
    return this.#lanes.reduce((sum, { candidates }) => sum + candidates.size, 0);
  }

  get running(): number {
    return this.#asked.size;
  }

  /** The object belongs to a running job of this run. */
  owns(object: ObjectId): boolean {
    return object.run === this.#options.settings.run && this.#own.has(object.seq);
  }

  /** A flush of the group was published. */
  flushed(group: Group, slices: FlushPlan['slices']): void {
    const { compactRunMin } = this.#options.settings;
    if (compactRunMin === 0) return;
    // Several flushes are needed before a merge. Ignoring half of them on average saves the memory of tracking all
    // streams.
    if (this.#random.below(Math.ceil(compactRunMin / 2)) !== 0) return;
    const lane = this.#lanes.find((one) => one.group === group);
    for (const slice of slices) {
      // All streams of an object or none: streams whose chunks are adjacent are merged together and read with one
      // request. Individually they took a request for nearly every chunk.
      if (!isSmall(slice)) continue;
      if (lane?.candidates.add(slice.incarnation, slice.stream, this.#clockMs) === false) this.counters.dropped++;
    }
  }

  turn(nowMs: number, clockMs: number): void {
    this.#nowMs = nowMs;
    this.#clockMs = clockMs;
    for (const lane of this.#lanes) if (lane.job !== undefined) this.#settle(lane, lane.job);
    if (clockMs < this.#lookAtMs) return;
    this.#lookAtMs = clockMs + this.#lookMs;
    const count = this.#lanes.length;
    for (let step = 0; step < count && this.#asked.size < JOBS_MAX; step++) {
      const at = (this.#next + step) % count;
      if (!this.#start(this.#lanes[at] as Lane)) continue;
      // Planning reads rows: at most once per turn. More may be due immediately.
      this.#next = (at + 1) % count;
      this.#lookAtMs = clockMs;
      return;
    }
  }

  onMerged(id: number, answer: MergeAnswer): void {
    const job = this.#asked.get(id);
    if (job === undefined) return;
    this.#asked.delete(id);
    this.#lookAtMs = 0;
    const lane = this.#lanes.find((one) => one.job === job);
    if ('error' in answer || answer.bytes === 0 || lane === undefined) this.#own.delete(job.object.seq);
    if ('error' in answer) this.counters.errors++;
    if (lane === undefined) return;
    if ('error' in answer) {
      this.#again(lane, job);
      return;
    }
    lane.backOff.succeeded();
    const slices: Slice[] = [];
    let chunks = 0;
    for (const [i, { refs, ...slice }] of job.plan.slices.entries()) {
      const merged = answer.slices[i];
      if (merged === undefined || 'failed' in merged) {
        this.#isBad(lane, slice.incarnation, merged?.failed ?? 'no answer');
        continue;
      }
      chunks += refs.length;
      slices.push({ ...slice, ...merged });
    }
    if (answer.bytes === 0) lane.job = undefined;
    // The next turn proposes it.
    else job.merged = { slices, bytes: answer.bytes, chunks };
  }

  #isBad(lane: Lane, incarnation: number, reason: string): void {
    this.counters.bad++;
    lane.candidates.avoid(incarnation, this.#clockMs);
    if (this.#clockMs < this.#reportAtMs) return;
    this.#reportAtMs = this.#clockMs + REPORT_MS;
    this.#options.log('warn', 'chunks in the cold store cannot be merged; they stay as they are', { reason });
  }

  #settle(lane: Lane, job: Job): void {
    const { group } = lane;
    if (!group.leads || group.raft.term !== job.term) {
      this.counters.forgotten++;
      if (job.merged !== undefined && !job.isProposed) this.#own.delete(job.object.seq);
      lane.job = undefined;
    } else if (job.merged !== undefined && !job.isProposed && group.accepts) {
      this.#publish(lane, job, job.merged);
    }
  }

  /** True when the state was examined. */
  #start(lane: Lane): boolean {
    const { group, candidates } = lane;
    if (candidates.size === 0 || lane.job !== undefined) return false;
    if (!group.leads) {
      // Only a leader tracks candidates.
      candidates.clear();
      return false;
    }
    const { state } = group;
    const isReady = group.accepts && state.appliedTerm === group.raft.term && state.cold.origin !== NO_ORIGIN;
    if (!isReady || this.#clockMs < lane.backOff.notBeforeMs) return false;
    if (group.admission.underPressure(state) || this.#options.short()) return false;
    const streams = candidates.next();
    const { plan, looked } = nextCompaction(state, streams, {
      maxBytes: JOB_BYTES_MAX,
      looks: LOOKS,
      least: this.#options.settings.compactRunMin,
    });
    candidates.drop(looked);
    if (plan !== undefined) this.#merge(lane, plan);
    return true;
  }

  #merge(lane: Lane, plan: CompactPlan): void {
    const { port, settings, nextId, nextSeq } = this.#options;
    const { group } = lane;
    const object = { run: settings.run, seq: nextSeq() };
    const key = objectKey(group.id, group.state.cold.origin, plan.bucket, plan.incarnation, object);
    const job: Job = { term: group.raft.term, object, key, plan, merged: undefined, isProposed: false };
    const id = nextId();
    lane.job = job;
    this.#asked.set(id, job);
    this.#own.add(object.seq);
    this.counters.jobs++;
    port.merge({ id, key, slices: plan.slices.map(({ incarnation, refs }) => ({ incarnation, refs })) });
  }

  #publish(lane: Lane, job: Job, { slices, bytes }: NonNullable<Job['merged']>): void {
    const { object, key, plan } = job;
    job.isProposed = true;
    const fields = newCommandFields();
    fields.kind = COMMANDS.compact.number;
    fields.bucket = plan.bucket;
    fields.payload = encodeFlushList({ object, key, bytes, slices });
    this.#options.proposals.propose(lane.group, fields, this.#nowMs, (outcome, reply) =>
      this.#published(lane, job, outcome, reply),
    );
  }

  #published(lane: Lane, job: Job, outcome: Outcome, reply: Reply): void {
    this.#own.delete(job.object.seq);
    if (lane.job !== job) return;
    this.#lookAtMs = 0;
    if (outcome !== 'applied') {
      this.#again(lane, job);
      return;
    }
    lane.job = undefined;
    const { slices, bytes, chunks } = job.merged as NonNullable<Job['merged']>;
    const { slicesAccepted } = COMMANDS.compact.result.read(reply);
    this.counters.stale += slices.length - slicesAccepted;
    if (slicesAccepted === 0) return;
    this.counters.publishes++;
    this.counters.bytes += bytes;
    this.counters.merged += chunks;
    this.counters.written += slicesAccepted;
    // The merged chunk may be the sixteenth of its tier.
    this.#remember(lane, job);
  }

  /** Later, with a new plan and a new object. */
  #again(lane: Lane, job: Job): void {
    lane.backOff.failed(this.#clockMs);
    lane.job = undefined;
    this.#remember(lane, job);
  }

  #remember({ candidates }: Lane, { plan }: Job): void {
    for (const { incarnation, stream } of plan.slices) candidates.add(incarnation, stream, this.#clockMs);
  }
}
