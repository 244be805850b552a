/**
 * The turn loop of one shard: drain the mailbox, step the groups, ONE durable record of the log for all of them, answer.
 * The write blocks this thread; requests that arrive meanwhile form the next turn, without a timer or an option.
 */
import { assert } from '../base/assert.ts';
import type { ErrorCode } from '../base/errors.ts';
import { PIECE_BYTES_MAX, TURN_BYTES_MAX } from '../base/limits.ts';
import type { Group } from '../group/group.ts';
import type { Message } from '../raft/types.ts';
import { WorkMemory } from '../stream/core/collect.ts';
import { KIND_MASK } from '../protocol/command.ts';
import { Reply } from '../protocol/reply.ts';
import {
  ALL_GROUPS,
  REQUEST,
  REQUEST_FLAG_TRACED,
  REQUEST_FLAG_TRANSFERRED,
  REQUEST_HEAD_BYTES,
} from '../protocol/request.ts';
import { type AdminHost, Administration } from './admin.ts';
import { ColdTier } from '../cold/shard/tier.ts';
import { Proposals } from '../cold/shard/proposals.ts';
import { Backlog, changedBytesMax } from './backlog.ts';
import { Commits, LOOK_MS } from './commits.ts';
import { DamagedGroups } from './damaged-groups.ts';
import { Exports } from '../backup/shard/exports.ts';
import { decodeRowQuestion } from '../peer/codec/comparison.ts';
import type { ForwardingHost } from './forwarding.ts';
import type { ForwardOrigin, RequestSource } from './ports.ts';
import { Replicated } from './replicated.ts';
import type { Replication } from './replication.ts';
import { DiskPressure } from './disk-pressure.ts';
import { SINGLE_NODE } from './single-node.ts';
import { ReplyRouter, RingSink } from './sink.ts';
import { openGroups, openState } from './open-groups.ts';
import { type ShardOptions, stateOf } from './options.ts';
import { PieceTurns } from './piece-turns.ts';
import { LostGroups } from './lost-groups.ts';
import { tickGroups } from './members.ts';
import { WholeBuffer, commandKind, isCommandFrame, kindAndFlags } from './frames.ts';
import { Queries } from './queries.ts';
import type { ShardStatus } from './summaries.ts';
import { QUERIES } from '../protocol/operations.ts';
import { TracedSlots } from './traced-slots.ts';
import { TurnRecords } from './turn-records.ts';

/** One tick of Raft's logical time. */
export const TICK_MS = 100;
/** Between two looks for expired streams, unless the last one found more than a command removes. */
const EXPIRE_MS = 250;
/** Rounds of persist-apply within one turn; more would mean that raft creates work without input. */
const ROUNDS_MAX = 8;

export class Shard {
  readonly groups: readonly Group[];
  readonly #options: ShardOptions;
  readonly #byId = new Map<number, Group>();
  /** How its groups are shared with other nodes. */
  readonly replication: Replication;
  readonly #sink: ReplyRouter;
  readonly #traced: TracedSlots;
  readonly #commits: Commits;
  readonly #backlog: Backlog;
  readonly #pressure: DiskPressure;
  readonly #admin: Administration;
  readonly #exports: Exports;
  readonly #queries: Queries;
  /** Undefined: everything stays on the nodes. */
  readonly cold: ColdTier | undefined;
  readonly #reply = new Reply();
  readonly #received = new WholeBuffer();
  readonly #memory = new WorkMemory();
  #clockMs = 0;
  #tickAtMs = 0;
  #expireAtMs = 0;
  readonly #records: TurnRecords;
  readonly lost: LostGroups;
  readonly #pieces: PieceTurns;
  readonly #damaged: DamagedGroups;
  readonly isStuck = (): boolean => this.#commits.isStuck(this.#clockMs);
  readonly #checkpoint = (groups: readonly Group[]): boolean => this.#commits.checkpoint(groups, this.#clockMs);
  /** The disk, rows and members may have changed since the write came. */
  readonly #propose: ForwardingHost['propose'] = (group, slot, frame, nowMs) => {
    const refused = this.#refusal(group, kindAndFlags(frame));
    if (refused === undefined && !group.accepts) return false;
    const view = new DataView(frame.buffer, frame.byteOffset, frame.length);
    const submit = (): void => group.submit(slot, frame, view, REQUEST_HEAD_BYTES, undefined, nowMs);
    this.#refuse(slot, refused ?? this.#damaged.guard(group, submit));
    return true;
  };
  readonly counters = { turns: 0, committedEntries: 0, requests: 0, refusedDiskFull: 0, refusedDiskSlow: 0 };

  constructor(options: ShardOptions) {
    this.#options = options;
    const { storage, links } = options;
    const traced = (this.#traced = new TracedSlots(options.nodeId, () => options.runtime.monotonicMs()));
    const ring = new RingSink(options.replies, traced);
    const deliver = (reply: Reply): void => ring.send(reply);
    const byId = (id: number): Group | undefined => this.#byId.get(id);
    const own = { deliver, propose: this.#propose, group: byId, traced, isStuck: this.isStuck };
    this.replication = links === undefined ? SINGLE_NODE : new Replicated({ ...options, ...own, links });
    const proposals = new Proposals();
    this.#sink = new ReplyRouter(ring, this.replication, proposals);
    const { groups, damages } = openGroups(options, this.#memory, this.#sink);
    this.groups = groups;
    for (const group of groups) {
      group.large.areUnderstood = () => this.replication.knowPieces(group);
      group.forwardRenewal = (key) => this.replication.renew(group, key);
      group.leftExpired = () => void (this.#expireAtMs = this.#clockMs);
      this.#byId.set(group.id, group);
    }
    this.#commits = new Commits({
      ...options,
      groups: this.groups,
      checkpointed: (group, index) => {
        this.#compact(group, this.replication.compactable(group, index));
        this.#damaged.comparison.checkpointed(group, index);
      },
    });
    const reload = (group: Group): void => group.installState(openState(options, group.id, this.#memory).state);
    const settle = (): void => this.#pressure.settle();
    const parts = { groups, damages, replication: this.replication, commits: this.#commits };
    this.#damaged = new DamagedGroups({ ...options, ...parts, reload, settle });
    const bytesMax = options.changedBytesMax ?? changedBytesMax(1);
    this.#backlog = new Backlog({
      groups: this.groups,
      commits: this.#commits,
      storage,
      changedBytesMax: bytesMax,
      replayBytesMax: options.replayBytesMax ?? bytesMax,
      isReplaying: () => groups.some((group) => this.#queries.recovery.isBehind(group)),
    });
    this.#pressure = new DiskPressure({ groups: this.groups, commits: this.#commits, storage, backlog: this.#backlog });
    if (options.cold !== undefined) {
      const { cold, seed, log } = options;
      this.cold = new ColdTier({ ...cold, groups: this.groups, proposals, seed, log, short: () => !storage.spaceLeft });
    }
    this.#admin = new Administration(this.#adminHost());
    this.#exports = new Exports(storage, this.#adminHost());
    this.#queries = new Queries({
      groups: this.groups,
      boot: options.boot,
      admin: this.#admin,
      exports: this.#exports,
      sink: this.#sink,
      hasOthers: this.replication.hasOthers,
      damaged: this.#damaged,
      status: () => this.status,
      shed: (electionPriority) => this.#pressure.shed(electionPriority),
    });
    this.#records = new TurnRecords({
      ...{ groups: this.groups, commits: this.#commits, replication: this.replication, replies: options.replies },
      ...{ backlog: this.#backlog, damaged: this.#damaged, queries: this.#queries, traced, counters: this.counters },
      group: (id) => this.#byId.get(id) as Group,
      installed: (group, index) => this.#installed(group, index),
    });
    this.lost = new LostGroups(storage, this.groups, (group) => this.#queries.recovery.lose(group));
    this.#pieces = new PieceTurns({ ...options, groups: this.groups });
    this.replication.tick(this.groups);
  }

  #adminHost(): AdminHost {
    const { nodeId, nodes } = this.#options;
    return {
      nodeId,
      knownNodes: nodes,
      cold: this.cold,
      checkpoint: (group) => {
        if (!this.full && this.isStuck()) return 'SHARD_BUSY';
        return !this.full && this.#checkpoint([group]) ? 'OK' : 'DISK_FULL';
      },
      checkpointed: (group) => this.#commits.lastCheckpoint(group),
      compact: (group, index) => this.#compact(group, index),
      deliver: (reply) => this.#sink.send(reply),
    };
  }

  /** Campaigns where this node is the only voter, so that a single node leads within its first turn. */
  start(clockMs: number): void {
    for (const group of this.groups) {
      const { voters, votersOutgoing } = group.raft.configuration;
      if (voters.length === 1 && votersOutgoing.length === 0) group.raft.campaign();
    }
    this.#tickAtMs = clockMs + (this.#options.tickMs ?? TICK_MS);
    this.#expireAtMs = clockMs + EXPIRE_MS;
  }

  /** `nowMs` is the wall clock, for commands and for what is expired; `clockMs` never steps and measures all periods. */
  turn(nowMs: number, clockMs: number): void {
    this.counters.turns++;
    this.#clockMs = clockMs;
    for (const group of this.groups) group.beginTurn(clockMs);
    this.lost.look(this.full || this.isStuck() ? 'hold' : 'store');
    this.#backlog.look();
    this.#drain(nowMs);
    this.#keepTime(nowMs, clockMs);
    if (!this.full) this.cold?.turn(nowMs, clockMs);
    if (!this.full && this.#backlog.room > 0) this.#pieces.cut(nowMs, clockMs);
    for (const group of this.groups) group.seal();
    if (this.#commits.pendingRetry.length === 0) this.#queries.ask(clockMs);
    this.#commits.checkpoints.observe(clockMs);
    // The next round does what a commit makes possible: apply, or the first entry of a new leader.
    for (let round = 0; this.#records.write(clockMs); round++)
      assert(round < ROUNDS_MAX, 'raft comes to rest within a turn');
    // Received rows may not be in place yet.
    if (!this.#records.haveSnapshot) this.replication.settle(!this.full, clockMs);
    this.replication.turn(nowMs, clockMs);
    this.#admin.turn(clockMs);
    this.#exports.turn(clockMs);
    for (const group of this.groups) group.watchers.flush();
    this.#queries.turn(nowMs, clockMs);
    this.#commits.checkpoints.observe(clockMs);
    this.#options.replies.publish();
    this.replication.flush();
    const compared = this.#damaged.comparison.waiting(clockMs);
    this.#commits.checkpointBehind(this.#backlog.isHigh ? 'changed' : 'due', clockMs, compared);
    if (!this.full) this.replication.sendSnapshots(clockMs, this.#checkpoint, (one) => this.#damaged.hasStopped(one));
  }

  /** A message of a peer. False: a turn would find nothing to do. Entries without room are lost; leaders repeat them. */
  onRaft(groupId: number, message: Message): boolean {
    if (this.#backlog.isFull && message.type === 'append' && message.entries.length > 0) return false;
    const group = this.#byId.get(groupId);
    group?.raft.step(message);
    return group?.raft.hasReady() === true;
  }

  /** A write that another node forwards, because it believes that this one leads. `frame` is copied. */
  onForward(origin: ForwardOrigin, groupId: number, frame: Uint8Array, nowMs: number): void {
    const group = this.#byId.get(groupId);
    const { bytes, view } = this.#received.of(frame);
    const question = decodeRowQuestion(frame);
    if (group !== undefined && question !== undefined)
      return this.#damaged.comparison.asked(group, question, (digest) => this.replication.compared(origin, digest));
    if (group === undefined || !isCommandFrame(bytes, view, frame)) return;
    if (frame.length <= PIECE_BYTES_MAX) this.#pieces.otherCame(this.#clockMs);
    const slot = this.replication.accept(origin, group);
    if ((REQUEST.fields.flags.get(view, frame.byteOffset) & REQUEST_FLAG_TRACED) !== 0)
      this.#traced.take(slot, 'write');
    if (!this.replication.takes(group, kindAndFlags(frame))) return this.#refuse(slot, 'UPGRADE_UNFINISHED');
    const refused = group.leads ? this.#pressure.refuses(group, commandKind(frame)) : undefined;
    // After NO_LEADER the other node asks again.
    if (refused !== undefined) return this.#refuse(slot, this.#pressure.mayPass ? 'NO_LEADER' : refused);
    const submit = (): void => group.submit(slot, bytes, view, frame.byteOffset + REQUEST_HEAD_BYTES, undefined, nowMs);
    const refusal = this.#damaged.guard(group, submit);
    // A node whose rows are sound leads, or will in a moment.
    this.#refuse(slot, refusal === undefined || group.accepts ? refusal : 'NO_LEADER');
  }

  /** The directory is not the one that its peers know, or an older copy of it. `stored`: the disk has that. */
  declareLost(stored: () => void = () => undefined): void {
    this.lost.declare(this.full || this.isStuck() ? 'hold' : 'store', stored);
  }

  group(id: number): Group | undefined {
    return this.#byId.get(id);
  }

  /** Milliseconds until the next turn is due without input. */
  waitMs(clockMs: number): number {
    let due = Math.min(this.#tickAtMs, this.#expireAtMs) - clockMs;
    if (!this.full && this.cold !== undefined) due = Math.min(due, this.cold.dueAtMs - clockMs);
    if (this.full) return Math.max(0, Math.min(due, this.#commits.retryAtMs - clockMs));
    if (this.#backlog.isHolding) due = Math.min(due, LOOK_MS);
    else if (this.#backlog.room > 0 && this.#pieces.areWaiting) return 0;
    return Math.max(0, Math.min(due, this.#commits.checkpointWaitMs(clockMs)));
  }

  /** The disk is full: writes are refused until a commit succeeds. */
  get full(): boolean {
    return this.#commits.full;
  }

  /** Writes all applied state, so that the next start replays nothing; refuses waiting requests. */
  stop(nowMs: number, clockMs: number): void {
    this.#records.stop(clockMs);
    this.turn(nowMs, clockMs);
    for (const group of this.groups) group.failWaiting();
    this.#damaged.comparison.stop();
    this.replication.stop();
    this.#queries.stop();
    this.#exports.stop();
    this.#options.replies.publish();
    if (this.full) return;
    this.#commits.checkpoints.observe(clockMs);
    const due = this.#commits.checkpoints.due(clockMs, 'all');
    if (due.length > 0) this.#commits.checkpoint(due, clockMs);
  }

  #drain(nowMs: number): void {
    const source = this.#options.requests;
    let bytes = 0;
    while (bytes < TURN_BYTES_MAX && source.next()) {
      const transferredBytes = this.#handle(source, nowMs);
      if (transferredBytes === 0) this.#pieces.otherCame(this.#clockMs);
      bytes += source.length + transferredBytes;
      this.counters.requests++;
    }
    source.release();
  }

  /** Returns the number of bytes that were transferred separately. */
  #handle(source: RequestSource, nowMs: number): number {
    const { bytes, view, offset } = source;
    const op = REQUEST.fields.op.get(view, offset);
    const groupId = REQUEST.fields.group.get(view, offset);
    const slot = REQUEST.fields.slot.get(view, offset);
    const flags = REQUEST.fields.flags.get(view, offset);
    const isTransferred = (flags & REQUEST_FLAG_TRANSFERRED) !== 0;
    const isTraced = (flags & REQUEST_FLAG_TRACED) !== 0;
    const payload = isTransferred ? source.takeTransfer(REQUEST.fields.transferId.get(view, offset)) : undefined;
    const group = this.#byId.get(groupId);
    if (op >= QUERIES.read.number && (group !== undefined || groupId === ALL_GROUPS)) {
      if (isTraced) this.#traced.take(slot, 'read');
      this.#queries.handle(source, group, slot, nowMs, this.#clockMs);
      return 0;
    }
    assert(group !== undefined, `group ${groupId} belongs to shard ${this.#options.shard}`);
    const refused = this.#refusal(group, kindAndFlags(bytes, offset));
    if (refused !== undefined) {
      this.#refuse(slot, refused);
    } else if ((!group.accepts && this.replication.hasOthers) || this.replication.holds(group)) {
      if (isTraced) this.#traced.take(slot, 'forward');
      this.replication.submit(group, slot, bytes.subarray(offset, offset + source.length), payload, nowMs);
    } else {
      if (isTraced) this.#traced.take(slot, 'write');
      const submit = (): void => group.submit(slot, bytes, view, offset + REQUEST_HEAD_BYTES, payload, nowMs);
      this.#refuse(slot, this.#damaged.guard(group, submit));
    }
    return payload?.length ?? 0;
  }

  /** Why a client's write gets no further. Without space this begins to hand over. */
  #refusal(group: Group, kind: number): ErrorCode | undefined {
    if (!this.replication.takes(group, kind)) return 'UPGRADE_UNFINISHED';
    const refused = this.#pressure.refuses(group, kind & KIND_MASK);
    if (refused !== undefined) this.counters[refused === 'DISK_FULL' ? 'refusedDiskFull' : 'refusedDiskSlow']++;
    return refused;
  }

  /** Why this node must not lead (placement/state/shed.ts), for peers that ask. */
  get shedBits(): number {
    return this.#queries.shedBits;
  }

  /** How often a group was compared with other replicas. */
  get comparisons(): number {
    return this.#damaged.comparison.counters.comparisons;
  }

  /** The part of STATUS that is not about groups. */
  get status(): ShardStatus {
    const { nodeId, storage } = this.#options;
    const snapshots = this.replication.counters;
    const counters = { ...this.counters, ...this.#commits.counters, ...this.#damaged.counters };
    const isBehind = (group: Group): boolean => this.#queries.recovery.isBehind(group);
    const snapshotIndex = (group: Group): number => this.#commits.lastCheckpoint(group);
    const { groups, cold, full } = this;
    const waiting = { ...this.#backlog.status, checkpointMs: this.#commits.checkpointMs(this.#clockMs) };
    return { nodeId, groups, cold, full, ...waiting, counters, isBehind, snapshotIndex, storage, snapshots };
  }

  #refuse(slot: number, code: ErrorCode | undefined): void {
    if (code !== undefined) this.#sink.send(this.#reply.refuse(slot, code));
  }

  #keepTime(nowMs: number, clockMs: number): void {
    if (clockMs >= this.#tickAtMs) {
      this.#tickAtMs = clockMs + (this.#options.tickMs ?? TICK_MS);
      this.#pressure.tick(clockMs);
      this.#damaged.tick(clockMs);
      tickGroups(this.groups, this.replication, this.#options.identity);
    }
    if (clockMs >= this.#expireAtMs) {
      this.#expireAtMs = clockMs + EXPIRE_MS;
      if (!this.full) for (const group of this.groups) this.#damaged.unasked(group, clockMs, () => group.expire(nowMs));
    }
  }

  /** A leader's state is on disk instead of the one before. */
  #installed(group: Group, index: number): void {
    group.installState(stateOf(this.#options, group.id, this.#memory));
    this.#commits.replaced(group);
    this.#queries.recovery.hold(group);
    this.#damaged.restored(group);
    assert(group.state.appliedIndex === index, `group ${group.id} holds the snapshot up to ${index}`);
    this.replication.installed(group.id);
  }

  #compact(group: Group, index: number): number {
    const upTo = Math.min(index, this.replication.pinnedIndex(group), group.raft.compactableIndex);
    if (upTo > 0) this.#options.storage.compact(group.id, upTo);
    group.raft.compacted(upTo);
    return group.raft.compactedIndex;
  }
}
