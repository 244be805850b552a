/**
 * One Raft group on this node: consensus, the state machine, and the waiting requests. Pure: the shard calls it in its
 * turn loop and does the I/O.
 *
 * A turn, seen from here:
 *  submit()/query() for everything that arrived -> seal() proposes the last entry -> the shard persists raft.take() ->
 *  raft.persisted() -> applyCommitted() answers and collects tail events -> watchers.flush().
 */
import { assert } from '../base/assert.ts';
import { errorNumber } from '../base/errors.ts';
import { COMMAND_BYTES_MAX, ENTRY_BYTES_MAX, ENTRY_FILL_BYTES } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import { Raft } from '../raft/raft.ts';
import { ENTRY_CONFIG, ENTRY_DATA, type Entry, type RaftConfig } from '../raft/types.ts';
import { apply, nextExpiryMs } from '../stream/apply.ts';
import type { Head } from '../stream/core/head.ts';
import { isClosedTo, isImporting } from '../stream/backup/apply-import.ts';
import type { State } from '../stream/core/state.ts';
import { Command, type CommandFields, commandBytesMax, writeCommand, writeKeyCommand } from '../protocol/command.ts';
import { EntryBuilder, eachCommand } from './entry.ts';
import { REPLY_COLD, REPLY_DUPLICATE, Reply, type ReplySink } from '../protocol/reply.ts';
import { readAhead } from '../stream/operations/append.ts';
import { earlyFork } from '../stream/forks/early.ts';
import { QuotaExtras } from '../stream/operations/quota.ts';
import { BODY_AS_SENT, sentBytes } from '../protocol/checked-body.ts';
import { Query, bodyMark, quotaMark } from '../protocol/request.ts';
import { Admission } from './admission.ts';
import { LargeCommands } from './large-commands.ts';
import { prepare } from './prepare.ts';
import { type Asked, MISSING, answerQuery } from './queries.ts';
import { quotaRefusal } from './would-add-bytes.ts';
import { NO_SLOT } from './reply-slot.ts';
import { Watchers } from './watchers.ts';
import { COMMANDS, QUERIES } from '../protocol/operations.ts';

/** Largest step back of the wall clock that a group's commands hide. */
const STEP_BACK_MS = 5000;
/** A read renews a sliding lifetime once this fraction of it has passed: exact to 2 % at a bounded write rate. */
const RENEWAL_FRACTION = 64;

const { append: APPEND, appendBatch: APPEND_BATCH, expire: EXPIRE } = COMMANDS;

/** The slots that wait for one proposed entry, in command order. */
interface Waiting {
  readonly index: number;
  readonly term: number;
  readonly slots: readonly number[];
  /** Time of the proposal on the monotonic clock. */
  readonly sinceMs: number;
}

export class Group {
  readonly id: number;
  /** Replaced completely when a snapshot is installed. */
  state: State;
  readonly raft: Raft;
  readonly watchers: Watchers;
  readonly admission = new Admission();
  readonly #entry = new EntryBuilder();
  readonly large = new LargeCommands(this.#entry.json);
  readonly #sink: ReplySink;
  readonly #reply = new Reply();
  readonly #command = new Command();
  readonly #applying = new Command();
  readonly #scratch = new Uint8Array(8192);
  readonly #scratchView = new DataView(this.#scratch.buffer);
  readonly #asked: Asked;
  #slots: number[] = [];
  readonly #waiting: Waiting[] = [];
  /** Wall clock of the last command; small steps back are hidden. */
  #lastNowMs = 0;
  /** The monotonic clock at the start of this turn, and of the last one in which an entry was committed. */
  #clockMs = 0;
  #committedMs = 0;
  /** When the next streams expire, by what is applied: an idle group need not look. */
  #expiry: { readonly appliedIndex: number; readonly ms: number } | undefined;
  /** Receives every query for something that is missing here. Undefined: no other node can know more. */
  onMissing: ((slot: number) => void) | undefined = undefined;
  /** On a follower: hands the renewal of a stream's lifetime (by key) to the leader. */
  forwardRenewal: (key: Uint8Array) => void = () => undefined;
  /** On a leader: more streams have expired than one command removes. */
  leftExpired: () => void = () => undefined;
  /** Observer of committed entries, called before they are applied. */
  onCommitted: ((entries: readonly Entry[]) => void) | undefined = undefined;
  /** Target size for combining commands into an entry, in bytes. */
  entryFillBytes = ENTRY_FILL_BYTES;
  /** Running exports. While there are any, the objects they refer to stay in the cold store. */
  exports = 0;
  /** Bytes that count for quotas in addition to those of streams. */
  readonly quotaExtras = new QuotaExtras();
  /** For the metrics. */
  readonly counters = {
    ...{ commands: 0, appends: 0, appendedBytes: 0, reads: 0, readBytes: 0, entries: 0, refusedNoLeader: 0 },
  };

  constructor(state: State, raft: RaftConfig, sink: ReplySink) {
    this.id = state.group;
    this.#sink = sink;
    this.state = state;
    this.raft = new Raft(raft);
    this.watchers = new Watchers(this.state, sink);
    this.state.listener = this.watchers;
    this.#asked = { state, watchers: this.watchers, query: new Query(), nowMs: 0 };
  }

  get leads(): boolean {
    return this.raft.role === 'leader';
  }

  /** Leads and accepts proposals, so it is not handing over (thesis 3.10). */
  get accepts(): boolean {
    return this.leads && this.raft.transferee === 0;
  }

  /** Commands not yet answered. */
  get waitingCount(): number {
    const unsealed = this.#slots.length + this.large.count;
    return this.#waiting.reduce((sum, waiting) => sum + waiting.slots.length, unsealed);
  }

  /** Starts a turn. All waits use `clockMs`, the monotonic clock; `nowMs` elsewhere is the wall clock. */
  beginTurn(clockMs: number): void {
    this.#clockMs = clockMs;
    this.admission.beginTurn(clockMs);
  }

  /** Takes a command into one of this turn's entries, or refuses it immediately. `at` is its position in the frame. */
  submit(
    slot: number,
    bytes: Uint8Array,
    view: DataView,
    at: number,
    transferred: Uint8Array | undefined,
    nowMs: number,
  ): void {
    const command = this.#command;
    command.read(bytes, view, at, transferred);
    const reply = this.#reply;
    const mark = bodyMark(view, at);
    // Bounds and quotas count a checked body as it was sent.
    const size = mark === BODY_AS_SENT ? command.payloadBytes : sentBytes(command.payload());
    const commandBytes = command.payloadAt - command.offset + size;
    const isLarge = this.large.takes(command, commandBytes);
    if (!isLarge) this.#makeRoom(commandBytes);
    reply.reset(slot);
    if (!this.leads) this.counters.refusedNoLeader++;
    const waiting = { entryBytes: this.#entry.length, largeBytes: this.large.bytes, isLarge };
    const refused =
      (this.leads ? undefined : 'NO_LEADER') ??
      (commandBytes > COMMAND_BYTES_MAX ? 'BODY_TOO_LARGE' : undefined) ??
      (isClosedTo(this.state, command.kind) ? undefined : readAhead(this.state, command)) ??
      quotaRefusal(quotaMark(view, at), this.state, command, size, this.#clock(nowMs), reply) ??
      this.admission.refuses(command, size, this.state, this.raft, waiting, nowMs);
    if (refused === undefined) this.#endEarlyFork(command, nowMs);
    else reply.code = errorNumber(refused);
    const target = isLarge ? this.large : this.#entry;
    const isTaken = refused === undefined && prepare(command, this.#clock(nowMs), target, reply, mark);
    // Many groups would each keep a large body until their next command.
    command.transferred = undefined;
    if (!isTaken) this.#sink.send(reply);
    else if (isLarge) this.large.answerTo(slot, this.#clockMs);
    else this.#slots.push(slot);
  }

  /** Adds the next piece of a large command to this turn's entries. Returns its bytes; 0: it waits, or there is none. */
  cut(nowMs: number): number {
    if (this.large.count === 0) return 0;
    // Its last piece was not proposed, so nothing was done.
    if (!this.leads) this.#refuseAll(this.large.drop(), 'NO_LEADER');
    const sizeBytes = this.nextPieceBytes;
    if (sizeBytes === 0) return 0;
    this.#makeRoom(sizeBytes);
    this.#slots.push(this.large.cut(sizeBytes, this.#entry, this.#clock(nowMs)) ?? NO_SLOT);
    return sizeBytes;
  }

  /** Size of the piece that could be cut now; 0: none. */
  get nextPieceBytes(): number {
    if (this.large.count === 0 || !this.accepts) return 0;
    const { state, raft } = this;
    const inFlightBytes = raft.uncommittedBytes + this.#entry.length;
    return this.large.nextBytes({ state, inFlightBytes, term: raft.term });
  }

  /** Answers a query about a stream. `confirmed`: this node has applied all that any node knew when it came. */
  query(slot: number, query: Query, nowMs: number, confirmed: boolean): void {
    const reply = this.#reply;
    reply.reset(slot);
    // Uses the commands' clock: a read must not show what a write already found expired.
    const shownMs = this.#clock(nowMs);
    if (isImporting(this.state) && !planted('reads-during-import')) {
      reply.code = errorNumber('GROUP_IMPORTING');
      this.#sink.send(reply);
      return;
    }
    const asked = this.#asked;
    asked.state = this.state;
    asked.query = query;
    asked.nowMs = shownMs;
    const used = answerQuery(asked, reply);
    const isConfirmed = confirmed || planted('missing-not-confirmed');
    if (!isConfirmed && reply.code !== 0 && this.onMissing !== undefined && MISSING.has(reply.code)) {
      this.onMissing(slot);
      return;
    }
    if (query.op === QUERIES.read.number) {
      this.counters.reads++;
      this.counters.readBytes += reply.has(REPLY_COLD)
        ? Math.max(0, reply.nextOffset - reply.startOffset)
        : (reply.body?.length ?? 0);
    }
    this.#sink.send(reply);
    if (used !== undefined) this.#renew(used, shownMs);
  }

  /** Proposes what submit() collected. Returns false when there was nothing. */
  seal(): boolean {
    if (this.#slots.length === 0) return false;
    const slots = this.#slots;
    this.#slots = [];
    const data = this.#entry.finish();
    const index = this.raft.propose(data);
    this.large.proposed(index);
    if (index === 0) {
      this.#refuseAll(slots, data.length > ENTRY_BYTES_MAX ? 'BODY_TOO_LARGE' : 'NO_LEADER');
      return false;
    }
    this.#waiting.push({ index, term: this.raft.term, slots, sinceMs: this.#clockMs });
    return true;
  }

  /** Applies committed entries and answers those who wait. After a RowDamage the host replaces the state. */
  applyCommitted(entries: readonly Entry[]): void {
    this.onCommitted?.(entries);
    for (const entry of entries) {
      assert(entry.index === this.state.appliedIndex + 1, `group ${this.id} applies ${entry.index} in order`);
      this.state.enter(entry.index, entry.term);
      this.#applyEntry(entry);
      this.admission.met(this.state.hotBytes);
    }
    const last = entries[entries.length - 1];
    if (last === undefined) return;
    this.#committedMs = this.#clockMs;
    this.raft.applied(last.index);
    this.watchers.applied(last.index);
  }

  /** Proposes the removal of expired streams if there are any. The shard calls this a few times a second. */
  expire(nowMs: number): void {
    if (!this.leads) return;
    const { appliedIndex } = this.state;
    if (this.#expiry?.appliedIndex !== appliedIndex) this.#expiry = { appliedIndex, ms: nextExpiryMs(this.state) };
    if (nowMs >= this.#expiry.ms) this.#submitInternal(EXPIRE.number, undefined, nowMs);
  }

  /** Takes a command of this node's own into this turn's entry, without preparation and whatever the bounds are. */
  submitOwn(slot: number, fields: CommandFields, nowMs: number): void {
    const bytes = new Uint8Array(commandBytesMax(fields));
    const view = new DataView(bytes.buffer);
    writeCommand(fields, bytes, view, 0);
    this.#makeRoom(bytes.length);
    this.#command.read(bytes, view, 0);
    this.#entry.add(this.#command, this.#clock(nowMs));
    this.#slots.push(slot);
  }

  /** Answers what has waited too long: on a former leader, or on one that has committed nothing meanwhile. */
  expireWaiting({ followerMs, leaderMs }: { readonly followerMs: number; readonly leaderMs: number }): void {
    const [waitMs, fromMs] = this.leads ? [leaderMs, this.#committedMs] : [followerMs, 0];
    if (this.leads && this.#clockMs - fromMs > waitMs)
      this.#refuseAll(this.large.expire(this.#clockMs - waitMs), 'OUTCOME_UNKNOWN');
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      if (this.#clockMs - Math.max(first.sinceMs, fromMs) <= waitMs) return;
      this.#waiting.shift();
      this.#refuseAll(first.slots, 'OUTCOME_UNKNOWN');
    }
  }

  /** A snapshot was installed: `state` holds everything up to its applied index. */
  installState(state: State): void {
    this.state.listener = undefined;
    state.lineage = this.state.lineage + 1;
    this.state = state;
    this.#expiry = undefined;
    this.watchers.replace(state, this.raft.commitIndex);
    for (const { slots } of this.#waiting.splice(0)) this.#refuseAll(slots, 'OUTCOME_UNKNOWN');
    this.raft.applied(state.appliedIndex);
  }

  /** Answers every waiting request; the outcome of their writes is unknown here. */
  failWaiting(): void {
    for (const waiting of this.#waiting.splice(0)) this.#refuseAll(waiting.slots, 'OUTCOME_UNKNOWN');
    this.#refuseAll(this.#slots.splice(0), 'STOPPING');
    this.#entry.finish();
    this.#refuseAll(this.large.drop(), 'STOPPING');
  }

  #applyEntry(entry: Entry): void {
    this.counters.entries++;
    const slots = this.#claim(entry);
    if (entry.kind === ENTRY_CONFIG) this.state.configuration = entry.data.slice();
    if (entry.kind !== ENTRY_DATA) return;
    const reply = this.#reply;
    const command = this.#applying;
    let answered = 0;
    const applyOne = (position: number): void => {
      if (planted('clock-in-apply')) command.nowMs = this.#lastNowMs;
      const slot = slots?.[position] ?? NO_SLOT;
      reply.reset(slot);
      this.counters.commands++;
      apply(this.state, command, reply);
      const appends = command.kind === APPEND.number || command.kind === APPEND_BATCH.number;
      if (appends && reply.code === 0 && !reply.has(REPLY_DUPLICATE)) {
        this.counters.appends++;
        this.counters.appendedBytes += command.payloadBytes;
      }
      if (slot !== NO_SLOT) this.#sink.send(reply);
      if (command.kind === EXPIRE.number && this.leads && EXPIRE.result.read(reply).isFull) this.leftExpired();
      answered++;
      if (command.kind === COMMANDS.importEnd.number && reply.code === 0) this.watchers.observer.rebase(this.id);
    };
    try {
      eachCommand(entry.data, command, applyOne);
    } catch (error) {
      this.#refuseAll(slots?.slice(answered) ?? [], 'OUTCOME_UNKNOWN');
      throw error;
    }
  }

  /** The slots that wait for this entry, if it is ours. Proposals that lost their place are refused. */
  #claim(entry: Entry): readonly number[] | undefined {
    for (;;) {
      const first = this.#waiting[0];
      // Terms never fall along the log, so none of ours can follow an entry of a later term.
      if (first === undefined || (first.index > entry.index && first.term >= entry.term)) return undefined;
      this.#waiting.shift();
      if (first.index === entry.index && first.term === entry.term) return first.slots;
      // Another leader's entry took the index: ours is not in the log, so the write can be repeated.
      this.#refuseAll(first.slots, 'NO_LEADER');
    }
  }

  /** A fork that waits for a clock that was ahead gives its name to `command`. */
  #endEarlyFork(command: Command, nowMs: number): void {
    const abort = earlyFork(this.state, command, this.#clock(nowMs));
    if (abort === undefined) return;
    const { bytes, view, offset, transferred } = command;
    this.submitOwn(NO_SLOT, abort, nowMs);
    command.read(bytes, view, offset, transferred);
  }

  /**
   * Proposes the collected entry before a command that would not fit into it. Input of one turn is unbounded (other
   * nodes forward between turns, and everything that waited for an election arrives at once), and an entry is sent as
   * one piece.
   */
  #makeRoom(commandBytes: number): void {
    if (planted('entry-unbounded')) return;
    if (this.#entry.length > 0 && this.#entry.length + commandBytes > this.entryFillBytes) this.seal();
  }

  #refuseAll(slots: readonly number[], code: 'NO_LEADER' | 'BODY_TOO_LARGE' | 'OUTCOME_UNKNOWN' | 'STOPPING'): void {
    for (const slot of slots) {
      if (slot !== NO_SLOT) this.#sink.send(this.#reply.refuse(slot, code));
    }
  }

  #renew(head: Head, nowMs: number): void {
    if (head.ttlSeconds < 0) return;
    const last = Math.max(head.touchedAtMs, head.renewalProposedMs);
    if (nowMs - last < (head.ttlSeconds * 1000) / RENEWAL_FRACTION) return;
    head.renewalProposedMs = nowMs;
    if (this.leads) this.#submitInternal(COMMANDS.touch.number, head.key, nowMs);
    else this.forwardRenewal(head.key);
  }

  #submitInternal(kind: number, key: Uint8Array | undefined, nowMs: number): void {
    writeKeyCommand(kind, key, this.#scratch, this.#scratchView, 0);
    this.#makeRoom(this.#scratch.length);
    this.#command.read(this.#scratch, this.#scratchView, 0);
    this.#entry.add(this.#command, this.#clock(nowMs));
    this.#slots.push(NO_SLOT);
  }

  /** Hides small steps back. After a large one the wall clock is trusted again, or lifetimes would stand still. */
  #clock(nowMs: number): number {
    const stepBackMs = this.#lastNowMs - nowMs;
    if (stepBackMs < 0 || stepBackMs > STEP_BACK_MS) this.#lastNowMs = nowMs;
    return this.#lastNowMs;
  }
}
