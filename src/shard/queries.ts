/** Handles everything that asks a shard and does not write: which part answers, and whether the query must wait. */
import type { ErrorCode } from '../base/errors.ts';
import type { Group } from '../group/group.ts';
import { type ReplySink, Reply } from '../protocol/reply.ts';
import type { ElectionPriority, ReadState } from '../raft/types.ts';
import { Query } from '../protocol/request.ts';
import type { Administration } from './admin.ts';
import type { Exports } from '../backup/shard/exports.ts';
import { RecoveryBarrier } from './recovery-barrier.ts';
import type { DamagedGroups } from './damaged-groups.ts';
import type { RequestSource } from './ports.ts';
import { type ShardStatus, answerSummary, isSoon } from './summaries.ts';
import { type WaitingQuestion, type Ending, type WaitingRead, WaitingReads } from './waiting-reads.ts';
import { QUERIES, type QueriesOf, byNumber, queriesWhere } from '../protocol/operations.ts';

export interface QueriesHost {
  readonly groups: readonly Group[];
  readonly boot: number;
  readonly admin: Administration;
  readonly exports: Exports;
  readonly sink: ReplySink;
  /** Other nodes exist, which may know more than this one. */
  readonly hasOthers: boolean;
  readonly damaged: DamagedGroups;
  status(): ShardStatus;
  /** Changes this node's election priority. */
  shed(electionPriority: ElectionPriority): void;
}

type Control = (group: Group | undefined, slot: number) => void;

const NEEDS_LEADERS = queriesWhere(({ needsLeaders }) => needsLeaders);

export class Queries {
  readonly #host: QueriesHost;
  readonly recovery: RecoveryBarrier;
  readonly #waiting: WaitingReads;
  readonly #query = new Query();
  readonly #reply = new Reply();
  /** The frame of the current query. */
  #frameBytes: Uint8Array = new Uint8Array(0);
  #frameAt = 0;
  #frameSize = 0;
  /** Why this node must not lead (placement/state/shed.ts). */
  shedBits = 0;
  #nowMs = 0;
  #clockMs = 0;
  /** Answered immediately, whatever the groups have applied. */
  readonly #control = byNumber<Control>({
    unwatch: (group) => {
      const { topic } = QUERIES.unwatch.request.read(this.#query);
      group?.watchers.unwatch(topic);
      this.#waiting.unwatch(topic);
    },
    status: (group, slot) => this.#answer(group, slot, false),
    admin: (group, slot) => group && this.#host.admin.handle(slot, group, this.#query, this.#clockMs),
    flushStream: (group, slot) => group && this.#host.admin.flush(slot, group, this.#query, this.#clockMs),
    exportGroup: (group, slot) => {
      if (this.#host.damaged.hasStopped(group)) this.#refuse(slot, 'ROW_DAMAGED');
      else if (group !== undefined) this.#host.exports.handle(slot, group, this.#query, this.#clockMs);
    },
    shed: (_group, slot) => {
      const { priority, reasons } = QUERIES.shed.request.read(this.#query);
      this.shedBits = reasons;
      this.#host.shed(priority);
      this.#refuse(slot, 'OK');
    },
  } satisfies Record<QueriesOf<'control'>, Control>);

  constructor(host: QueriesHost) {
    this.#host = host;
    this.recovery = new RecoveryBarrier(host.groups);
    this.#waiting = new WaitingReads(
      host.boot,
      (group) => this.#isBehind(group),
      (read, ending) => this.#end(read, ending),
    );
    if (!host.hasOthers) return;
    for (const group of host.groups) group.onMissing = (slot) => this.#confirm(group, [group], slot);
  }

  /** Takes the current request of the source. `group` is undefined for one that concerns all of them. */
  handle(source: RequestSource, group: Group | undefined, slot: number, nowMs: number, clockMs: number): void {
    const query = this.#query;
    query.read(source.bytes, source.view, source.offset, source.length);
    this.#nowMs = nowMs;
    this.#clockMs = clockMs;
    const control = this.#control[query.op];
    if (control !== undefined)
      return this.#refuseIf(
        slot,
        this.#host.damaged.caught(() => control(group, slot)),
      );
    this.#frameBytes = source.bytes;
    this.#frameAt = source.offset;
    this.#frameSize = source.length;
    if (this.#host.damaged.hasStopped(group)) this.#refuse(slot, 'ROW_DAMAGED');
    else if (this.recovery.done || !this.#isBehind(group)) this.#answer(group, slot, false);
    else if (!this.#waiting.untilCaughtUp(this.#asked(group, slot), clockMs)) this.#refuse(slot, 'CATCHING_UP');
  }

  /** Call before the messages of a turn are sent. */
  ask(clockMs: number): void {
    if (this.#waiting.size > 0) this.#waiting.ask(clockMs);
  }

  confirmed(group: Group, states: readonly ReadState[]): void {
    this.#waiting.confirmed(group, states);
  }

  /** Once a turn, after apply and after the live events were sent, as a query may subscribe to the next ones. */
  turn(nowMs: number, clockMs: number): void {
    this.#nowMs = nowMs;
    this.#clockMs = clockMs;
    if (!this.recovery.done) this.recovery.observe();
    if (this.#waiting.size > 0) this.#waiting.turn(clockMs);
  }

  stop(): void {
    this.#waiting.stop();
  }

  get #frame(): Uint8Array {
    return this.#frameBytes.subarray(this.#frameAt, this.#frameAt + this.#frameSize);
  }

  #asked(group: Group | undefined, slot: number): WaitingQuestion {
    return { group, slot, frame: this.#frame, isSoon: isSoon(this.#query) };
  }

  #isBehind(group: Group | undefined): boolean {
    return group === undefined ? !this.recovery.done : this.recovery.isBehind(group);
  }

  #end({ group, slot, frame }: WaitingRead, ending: Ending): void {
    if (ending === 'stop') return this.#refuse(slot, 'STOPPING');
    if (ending === 'not-caught-up') return this.#refuse(slot, 'CATCHING_UP');
    if (ending === 'not-confirmed') return this.#refuse(slot, 'UNCONFIRMED');
    if (ending === 'not-applied') return this.#refuse(slot, 'NOT_APPLIED');
    this.#query.read(frame, new DataView(frame.buffer, frame.byteOffset), 0, frame.length);
    this.#frameBytes = frame;
    this.#frameAt = 0;
    this.#frameSize = frame.length;
    return this.#answer(group, slot, ending !== 'answer');
  }

  #answer(group: Group | undefined, slot: number, confirmed: boolean): void {
    const ask = (): void => this.#ask(group, slot, confirmed);
    if (this.#query.op === QUERIES.status.number) return ask();
    this.#refuseIf(slot, this.#host.damaged.guard(group, ask));
  }

  #ask(group: Group | undefined, slot: number, confirmed: boolean): void {
    const query = this.#query;
    if (group !== undefined) return group.query(slot, query, this.#nowMs, confirmed);
    if (NEEDS_LEADERS.has(query.op) && this.#host.hasOthers && !confirmed)
      return this.#confirm(undefined, this.#host.groups, slot);
    this.#reply.reset(slot);
    answerSummary(this.#host.status(), query, this.#nowMs, this.#reply);
    return this.#host.sink.send(this.#reply);
  }

  /** Keeps the current query until everything committed at its arrival is applied here. */
  #confirm(group: Group | undefined, groups: readonly Group[], slot: number): void {
    if (this.#waiting.untilConfirmed(this.#asked(group, slot), groups, this.#clockMs)) return;
    this.#refuse(slot, 'UNCONFIRMED');
  }

  #refuseIf(slot: number, refusal: ErrorCode | undefined): void {
    if (refusal !== undefined) this.#refuse(slot, refusal);
  }

  #refuse(slot: number, code: ErrorCode): void {
    this.#host.sink.send(this.#reply.refuse(slot, code));
  }
}
