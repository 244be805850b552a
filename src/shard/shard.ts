/**
 * The turn loop of one shard: drain the mailbox, step the groups, ONE durable commit for all of them, answer.
 *
 * The commit blocks this thread until fsync has returned. What arrives meanwhile waits in the ring and becomes the next
 * turn: that is the whole batching policy, there is no timer and no knob.
 */
import { assert } from '../base/assert.ts';
import { type ErrorCode, errorNumber } from '../base/errors.ts';
import { TURN_BYTES_MAX, UNCOMMITTED_BYTES_MAX } from '../base/limits.ts';
import { Group } from '../group/group.ts';
import type { Entry, LogReader, RaftConfig } from '../raft/types.ts';
import { State } from '../stream/state.ts';
import { Reply } from '../wire/reply.ts';
import {
  ALL_GROUPS,
  OP_BUCKET,
  OP_LIST,
  OP_READ,
  OP_STATUS,
  OP_UNWATCH,
  OP_USAGE,
  Query,
  REQUEST_FLAG_LANE,
  REQUEST_HEAD_BYTES,
} from '../wire/request.ts';
import { Checkpoints } from './checkpoints.ts';
import type { Log, ReplyTarget, RequestSource, ShardStorage, TurnBatch } from './ports.ts';
import { StorageFullError } from './ports.ts';
import { RingSink } from './sink.ts';
import { answerBucket, answerList, answerStatus, answerUsage } from './summaries.ts';

/** One tick of Raft's logical time. */
export const TICK_MS = 100;
const SWEEP_MS = 1000;
/** A commit refused for want of space is tried again this often. */
const FULL_RETRY_MS = 100;
/** Those who wait for a write that cannot reach the disk are told after this long. */
const FULL_ANSWER_MS = 5000;
/** Rounds of persist-apply within one turn; more would mean raft makes work out of nothing. */
const ROUNDS_MAX = 8;

export interface ShardOptions {
  readonly shard: number;
  readonly nodeId: number;
  /** Groups that this shard owns, ascending. */
  readonly groups: readonly number[];
  readonly storage: ShardStorage;
  readonly requests: RequestSource;
  readonly replies: ReplyTarget;
  /** Differs between boots; seeds election timeouts. */
  readonly seed: number;
  readonly log: Log;
}

export class Shard {
  readonly groups: readonly Group[];
  readonly #options: ShardOptions;
  readonly #byId = new Map<number, Group>();
  readonly #sink: RingSink;
  readonly #checkpoints: Checkpoints;
  readonly #query = new Query();
  readonly #reply = new Reply();
  #tickAtMs = 0;
  #sweepAtMs = 0;
  /** Entries that are handed out by raft but not yet on disk because the disk is full. */
  #stuck: TurnBatch[] = [];
  #fullSinceMs = 0;
  #retryAtMs = 0;
  #announcedFull = false;
  readonly counters = {
    turns: 0,
    commits: 0,
    commitMicros: 0,
    committedEntries: 0,
    requests: 0,
    checkpoints: 0,
    refusedDiskFull: 0,
  };

  constructor(options: ShardOptions) {
    this.#options = options;
    this.#sink = new RingSink(options.replies);
    // Applied state first, then all logs behind it, then consensus over both.
    const { storage } = options;
    const states = options.groups.map((id) => new State(id, storage.tx));
    const logs = states.map((state) => storage.openLog(state.group, state.appliedIndex, state.appliedTerm));
    storage.load();
    this.groups = states.map((state, i) => {
      const group = new Group(state, this.#raftConfig(state, logs[i] as LogReader), this.#sink);
      this.#byId.set(group.id, group);
      return group;
    });
    this.#checkpoints = new Checkpoints(this.groups);
  }

  #raftConfig(state: State, log: LogReader): RaftConfig {
    const { storage, nodeId, seed } = this.#options;
    const { term, vote } = storage.vote(state.group);
    return {
      nodeId,
      electionTicks: 15,
      heartbeatTicks: 2,
      maxMessageBytes: 1024 * 1024,
      maxInflightBytes: 16 * 1024 * 1024,
      maxUncommittedBytes: UNCOMMITTED_BYTES_MAX,
      seed: seed + state.group,
      mayVote: true,
      log,
      hardState: { term, vote, commit: state.appliedIndex },
      configuration: storage.configuration(state.group) ?? { voters: [nodeId], votersOutgoing: [], learners: [] },
      applied: state.appliedIndex,
      snapshotIndex: state.appliedIndex,
      snapshotTerm: state.appliedTerm,
    };
  }

  /** Campaigns where this node is the only voter, so that a single node leads within its first turn. */
  start(clockMs: number): void {
    for (const group of this.groups) {
      const { voters, votersOutgoing } = group.raft.configuration;
      if (voters.length === 1 && votersOutgoing.length === 0) group.raft.campaign();
    }
    this.#tickAtMs = clockMs + TICK_MS;
    this.#sweepAtMs = clockMs + SWEEP_MS;
  }

  /**
   * One turn. `nowMs` is the wall clock: it goes into commands and decides what is expired. `clockMs` never steps: all
   * periods are measured with it.
   */
  turn(nowMs: number, clockMs: number): void {
    this.counters.turns++;
    this.#drain(nowMs);
    this.#keepTime(nowMs, clockMs);
    for (const group of this.groups) group.seal();
    this.#checkpoints.observe(clockMs);
    // What a commit makes possible (apply, or the first entry of a new leader) is done in the next round.
    for (let round = 0; this.#persist(clockMs, round === 0); round++) {
      assert(round < ROUNDS_MAX, 'raft comes to rest within a turn');
    }
    for (const group of this.groups) group.flushEvents();
    this.#checkpoints.observe(clockMs);
    this.#options.replies.publish();
  }

  /** Milliseconds until the next turn is due although nothing arrives. */
  waitMs(clockMs: number): number {
    const due = Math.min(this.#tickAtMs, this.#sweepAtMs) - clockMs;
    if (this.full) return Math.max(0, Math.min(due, this.#retryAtMs - clockMs));
    return Math.max(0, Math.min(due, this.#checkpoints.waitMs(clockMs)));
  }

  /** The disk is full: writes are refused until a commit succeeds. */
  get full(): boolean {
    return this.#fullSinceMs !== 0;
  }

  /** Writes all applied state, so that the next start replays nothing; refuses who still waits. */
  stop(nowMs: number, clockMs: number): void {
    this.turn(nowMs, clockMs);
    for (const group of this.groups) group.failWaiting();
    this.#options.replies.publish();
    if (this.full) return;
    this.#checkpoints.observe(clockMs);
    const due = this.#checkpoints.due(clockMs, true);
    if (due.length > 0) this.#commit([], due, clockMs);
  }

  #drain(nowMs: number): void {
    const source = this.#options.requests;
    let bytes = 0;
    while (bytes < TURN_BYTES_MAX && source.next()) {
      bytes += source.length + this.#handle(source, nowMs);
      this.counters.requests++;
    }
    source.release();
  }

  /** Returns the bytes that came beside the ring. */
  #handle(source: RequestSource, nowMs: number): number {
    const { bytes, view, offset } = source;
    const op = bytes[offset] as number;
    const groupId = view.getUint16(offset + 2, true);
    const slot = view.getUint32(offset + 4, true);
    const inLane = bytes[offset + 1] === REQUEST_FLAG_LANE;
    const payload = inLane ? source.takeLane(view.getUint32(offset + 8, true)) : undefined;
    if (groupId === ALL_GROUPS) {
      this.#query.read(bytes, view, offset);
      this.#summarise(op, slot, nowMs);
      return 0;
    }
    const group = this.#byId.get(groupId);
    assert(group !== undefined, `group ${groupId} belongs to shard ${this.#options.shard}`);
    if (op >= OP_READ) {
      this.#query.read(bytes, view, offset);
      if (op === OP_UNWATCH) group.watchers.unwatch(this.#query.topic);
      else group.query(slot, this.#query, nowMs);
    } else if (this.full || !this.#options.storage.spaceLeft) {
      this.counters.refusedDiskFull++;
      this.#refuse(slot, 'DISK_FULL');
    } else {
      group.submit(slot, bytes, view, offset + REQUEST_HEAD_BYTES, payload, nowMs);
    }
    return payload?.length ?? 0;
  }

  #summarise(op: number, slot: number, nowMs: number): void {
    const reply = this.#reply;
    reply.reset(slot);
    if (op === OP_LIST) answerList(this.groups, this.#query, nowMs, reply);
    else if (op === OP_BUCKET) answerBucket(this.groups, this.#query, reply);
    else if (op === OP_USAGE) answerUsage(this.groups, reply);
    else if (op === OP_STATUS) answerStatus(this, this.#options.nodeId, reply);
    else reply.code = errorNumber('INTERNAL');
    this.#sink.send(reply);
  }

  #refuse(slot: number, code: ErrorCode): void {
    this.#reply.reset(slot);
    this.#reply.code = errorNumber(code);
    this.#sink.send(this.#reply);
  }

  #keepTime(nowMs: number, clockMs: number): void {
    if (clockMs >= this.#tickAtMs) {
      this.#tickAtMs = clockMs + TICK_MS;
      this.#noteRoom();
      for (const group of this.groups) group.raft.tick();
    }
    if (clockMs >= this.#sweepAtMs) {
      this.#sweepAtMs = clockMs + SWEEP_MS;
      if (!this.full) for (const group of this.groups) group.sweep(nowMs);
    }
  }

  /** Applies what is committed and makes durable what raft hands out; false when there was nothing to make durable. */
  #persist(clockMs: number, mayCheckpoint: boolean): boolean {
    const batches = this.#stuck.length > 0 ? this.#stuck : this.#takeBatches();
    const due = mayCheckpoint ? this.#checkpoints.due(clockMs) : [];
    if (batches.length === 0 && due.length === 0) return false;
    if (this.full && clockMs < this.#retryAtMs) {
      this.#stuck = batches;
      return false;
    }
    if (!this.#commit(batches, due, clockMs)) return false;
    for (const { group, persistIndex, persistTerm } of batches) {
      (this.#byId.get(group) as Group).raft.persisted(persistIndex, persistTerm);
    }
    return true;
  }

  #takeBatches(): TurnBatch[] {
    const batches: TurnBatch[] = [];
    for (const group of this.groups) {
      if (!group.raft.hasReady()) continue;
      const ready = group.raft.take();
      if (ready.committed.length > 0) this.#apply(group, ready.committed);
      if (ready.mustPersist) {
        const { entries, hardState, persistIndex, persistTerm } = ready;
        batches.push({ group: group.id, entries, hardState, persistIndex, persistTerm });
      }
    }
    return batches;
  }

  #apply(group: Group, committed: readonly Entry[]): void {
    group.applyCommitted(committed);
    this.counters.committedEntries += committed.length;
  }

  /** False: the disk is full, nothing was written, the batches are kept for another try. */
  #commit(batches: readonly TurnBatch[], due: readonly Group[], clockMs: number): boolean {
    const { storage } = this.#options;
    const checkpoint = due.length === 0 ? undefined : (): void => due.forEach((group) => group.state.flush());
    const startedMs = performance.now();
    try {
      storage.commit(batches, checkpoint);
    } catch (error) {
      if (!(error instanceof StorageFullError)) throw error;
      this.#becomeFull(batches, clockMs);
      return false;
    }
    this.counters.commits++;
    this.counters.commitMicros += (performance.now() - startedMs) * 1000;
    this.#stuck = [];
    this.#fullSinceMs = 0;
    for (const group of due) {
      group.state.flushed();
      storage.purge(group.id, group.state.appliedIndex);
      group.raft.compacted(group.state.appliedIndex);
    }
    this.counters.checkpoints += due.length;
    this.#checkpoints.done(due, clockMs);
    return true;
  }

  #becomeFull(batches: readonly TurnBatch[], clockMs: number): void {
    this.#stuck = [...batches];
    this.#retryAtMs = clockMs + FULL_RETRY_MS;
    if (!this.full) this.#fullSinceMs = clockMs;
    if (!this.#announcedFull) {
      this.#announcedFull = true;
      this.#options.log(
        'error',
        'disk full: writes are refused with 507 until space is freed; nothing acknowledged is lost',
        {
          shard: this.#options.shard,
        },
      );
    }
    if (clockMs - this.#fullSinceMs > FULL_ANSWER_MS) for (const group of this.groups) group.failWaiting();
  }

  /** Near the edge commits fail and succeed by turns; people are told once, and again when there is real room. */
  #noteRoom(): void {
    if (!this.#announcedFull || this.full || !this.#options.storage.spaceLeft) return;
    this.#announcedFull = false;
    this.#options.log('info', 'disk has room again: writes are accepted', { shard: this.#options.shard });
  }
}
