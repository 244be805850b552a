/**
 * Client queries that cannot be answered immediately, because this node may know less than it should:
 *
 * - Its group has not caught up since the start (recovery-barrier.ts). Answered when it has; refused when that takes
 *   too long.
 * - It asks for a stream or position that is missing here, or for a bucket's content: a write acknowledged by another
 *   node may not have arrived yet. The leaders are asked for their commit indexes (thesis 6.4), and the query is
 *   answered once those are applied here. Until then no answer may say that something does not exist: without leaders,
 *   or far behind them, it is eventually refused.
 */
import { planted } from '../base/planted.ts';
import type { Group } from '../group/group.ts';
import type { ReadState } from '../raft/types.ts';
import { QUERIES } from '../protocol/operations.ts';
import { clearTopic } from '../protocol/request.ts';

/** As long as a write waits for a leader (forwarding.ts): longer than an election takes. */
const WAIT_MS = 5000;
/** Wait of a query that accepts local state if nothing newer arrives: a few round trips, and less than an election. */
const SOON_MS = 200;
/** Waiting queries, in bytes per shard: tens of thousands of small ones. */
const WAITING_BYTES_MAX = 8 * 1024 * 1024;
/** Charged per query in addition to its frame, and for each of its bounds. */
const OVERHEAD_BYTES = 160;
const BOUND_BYTES = 64;
/** A failed read index request is repeated after this long. */
const ASK_AGAIN_MS = 100;

/** Questions of a boot are numbered from boot * QUESTIONS_PER_BOOT: 52 bits together. */
const BOOTS = 2 ** 20;
const QUESTIONS_PER_BOOT = 2 ** 32;

/** How a waiting query ends. */
export type Ending =
  /** Like any query that just arrived. */
  | 'answer'
  /** With local state, including that something does not exist. */
  | 'answer-confirmed'
  /** With local state, as requested, although not enough arrived in time. */
  | 'answer-soon'
  /** Not enough arrived in time: after a start, from leaders that do not answer, or of what they committed. */
  | 'not-caught-up'
  | 'not-confirmed'
  | 'not-applied'
  | 'stop';

/** The index of a group that must be applied before a query is answered. */
interface Bound {
  readonly group: Group;
  /** The question to the leader that covers it. */
  readonly question: number;
  /** Infinity until the leader has answered. */
  index: number;
}

export interface WaitingRead {
  /** Undefined: the query concerns all groups. */
  readonly group: Group | undefined;
  readonly slot: number;
  readonly frame: Uint8Array;
  readonly sinceMs: number;
  /** Empty: it waits for the group to catch up. */
  readonly bounds: readonly Bound[];
  /** It accepts local state in the end; a listing of buckets, for example. */
  readonly isSoon: boolean;
}

export type WaitingQuestion = Pick<WaitingRead, 'group' | 'slot' | 'frame' | 'isSoon'>;

/** Questions of one group to its leader. A later one covers everything that an earlier one does. */
interface PendingReads {
  next: number;
  /** Queries have come since the last question was sent. */
  due: boolean;
  againAtMs: number;
  /** Bounds that wait for an answer. */
  open: number;
}

export class WaitingReads {
  readonly #isBehind: (group: Group | undefined) => boolean;
  readonly #end: (read: WaitingRead, ending: Ending) => void;
  #waiting: WaitingRead[] = [];
  #bytes = 0;
  /** Topics that ended since the last turn. */
  readonly #left = new Set<number>();
  readonly #pending = new Map<Group, PendingReads>();
  readonly #firstQuestion: number;

  /** `boot` identifies this run of the process: an answer to the previous one may still be in flight. */
  constructor(
    boot: number,
    isBehind: (group: Group | undefined) => boolean,
    end: (read: WaitingRead, ending: Ending) => void,
  ) {
    this.#firstQuestion = (boot % BOOTS) * QUESTIONS_PER_BOOT;
    this.#isBehind = isBehind;
    this.#end = end;
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** Keeps a copy of the frame until the group has caught up. False: too much waits. */
  untilCaughtUp(query: WaitingQuestion, clockMs: number): boolean {
    return this.#add({ ...query, sinceMs: clockMs, bounds: [] });
  }

  /**
   * Keeps a copy of the frame until the leaders of `groups` have reported their commit indexes and this node has
   * applied them. `group` is undefined for a query about all groups. False: too much waits.
   */
  untilConfirmed(query: WaitingQuestion, groups: readonly Group[], clockMs: number): boolean {
    const asked = groups.map((group) => [group, this.#pendingOf(group)] as const);
    const bounds = asked.map(([group, { next }]) => ({ group, question: next, index: Infinity }));
    if (!this.#add({ ...query, sinceMs: clockMs, bounds })) return false;
    for (const [, questions] of asked) {
      questions.due = true;
      questions.open++;
    }
    return true;
  }

  /** Asks the leaders, one question per group for all that arrived. Call before the messages of a turn are sent. */
  ask(clockMs: number): void {
    for (const [group, questions] of this.#pending) {
      if (questions.open === 0 || (!questions.due && clockMs < questions.againAtMs)) continue;
      questions.due = false;
      questions.againAtMs = clockMs + ASK_AGAIN_MS;
      // No leader to ask, or a lost message: try again later.
      if (group.raft.readIndex(questions.next)) questions.next++;
    }
  }

  /** Answers of leaders. */
  confirmed(group: Group, states: readonly ReadState[]): void {
    const questions = this.#pending.get(group);
    if (questions === undefined) return;
    for (const { context, index } of states) {
      // Refused, or the answer to a question of an earlier process.
      if (index === 0 || context >= questions.next) continue;
      for (const { bounds } of this.#waiting) {
        const bound = bounds.length === 1 ? bounds[0] : bounds.find((one) => one.group === group);
        if (bound === undefined || bound.group !== group) continue;
        if (bound.index !== Infinity || bound.question > context) continue;
        bound.index = index;
        questions.open--;
      }
    }
  }

  /**
   * The topic ended before its read was answered, so the answer subscribes nothing. Many may end during one catch-up,
   * so they are matched together when answers are given. The number is not reused for another topic meanwhile
   * (gateway/gateway.ts).
   */
  unwatch(topic: number): void {
    if (this.#waiting.length > 0) this.#left.add(topic);
  }

  /** Once a turn, after apply and after the live events were sent. */
  turn(clockMs: number): void {
    if (this.#waiting.length === 0) return;
    this.#clearLeft();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const read of waiting) {
      const ending = this.#ending(read, clockMs);
      if (ending === undefined) this.#waiting.push(read);
      else this.#finish(read, ending);
    }
  }

  /** Removes and returns everything. */
  stop(): void {
    this.#clearLeft();
    for (const read of this.#waiting.splice(0)) this.#finish(read, 'stop');
  }

  #clearLeft(): void {
    if (this.#left.size === 0) return;
    for (const { frame } of this.#waiting) if (frame[0] === QUERIES.read.number) clearTopic(frame, this.#left);
    this.#left.clear();
  }

  #ending(read: WaitingRead, clockMs: number): Ending | undefined {
    const { group: asked, bounds, sinceMs, isSoon } = read;
    const isOver = clockMs - sinceMs >= (isSoon ? SOON_MS : WAIT_MS);
    if (bounds.length === 0) {
      if (!this.#isBehind(asked)) return 'answer';
      if (isOver && isSoon) return 'answer-soon';
      return isOver ? 'not-caught-up' : undefined;
    }
    if (planted('confirmed-but-not-applied') && bounds.every(({ index }) => index < Infinity))
      return 'answer-confirmed';
    // Behind a repair the state may be older than what was shown.
    const isThere = ({ group, index }: Bound): boolean => group.state.appliedIndex >= index && !this.#isBehind(group);
    if (bounds.every(isThere)) return 'answer-confirmed';
    if (!isOver) return undefined;
    if (isSoon) return 'answer-soon';
    if (planted('missing-in-the-end')) return 'answer-confirmed';
    return bounds.some(({ index }) => index === Infinity) ? 'not-confirmed' : 'not-applied';
  }

  #finish(read: WaitingRead, ending: Ending): void {
    this.#bytes -= chargeOf(read);
    for (const { group, index } of read.bounds) if (index === Infinity) this.#pendingOf(group).open--;
    this.#end(read, ending);
  }

  #pendingOf(group: Group): PendingReads {
    let questions = this.#pending.get(group);
    if (questions === undefined) {
      questions = { next: this.#firstQuestion, due: false, againAtMs: 0, open: 0 };
      this.#pending.set(group, questions);
    }
    return questions;
  }

  #add(read: WaitingRead): boolean {
    const bytes = chargeOf(read);
    if (this.#bytes + bytes > WAITING_BYTES_MAX) return false;
    this.#bytes += bytes;
    this.#waiting.push({ ...read, frame: read.frame.slice() });
    return true;
  }
}

function chargeOf({ frame, bounds }: WaitingRead): number {
  return frame.length + OVERHEAD_BYTES + bounds.length * BOUND_BYTES;
}
