/**
 * Queries of clients that are not answered at once, because this node may know less than it should:
 *
 * - Its group has not caught up since the start (catch-up.ts). Answered when it has; refused when that takes too long.
 * - It asks for a stream or position that is not here: a write that another node acknowledged may not have arrived yet. The leader
 *   is asked for its commit index (thesis 6.4), and the query is answered once that is applied here. Without an answer it is
 *   told what this node knows: a stream that does not exist must not need a leader.
 */
import type { Group } from '../group/group.ts';
import type { ReadState } from '../raft/types.ts';
import { clearTopic } from '../wire/request.ts';

/** As long as a write waits for a leader (forwarding.ts). */
const CATCH_UP_WAIT_MS = 5000;
/** A lagging node is milliseconds behind; without a leader people wait for a 404 that long. */
const MISSING_WAIT_MS = 1000;
/** Waiting queries, in bytes per shard: tens of thousands of small ones. */
const WAITING_BYTES_MAX = 8 * 1024 * 1024;
/** Charged per query beyond its frame. */
const OVERHEAD_BYTES = 160;
/** A read index that was asked for in vain is asked for again after this long. */
const ASK_AGAIN_MS = 100;

/** Questions of a boot are numbered from boot * QUESTIONS_PER_BOOT on: together 52 bits. */
const BOOTS = 2 ** 20;
const QUESTIONS_PER_BOOT = 2 ** 32;

/** How a waiting query ends. */
export type Ending =
  /** As any query that just arrived. */
  | 'answer'
  /** With what is here, whatever that is. */
  | 'answer-anyway'
  | 'refuse'
  | 'stop';

export interface WaitingRead {
  /** Undefined: it concerns all groups. */
  readonly group: Group | undefined;
  readonly slot: number;
  readonly frame: Uint8Array;
  readonly sinceMs: number;
  /** The question to the leader that covers it; -1: it waits for the group to catch up. */
  question: number;
  /** To be applied before it is answered; Infinity until the leader has answered. */
  index: number;
}

/** Questions of one group to its leader. A later one covers everything that an earlier one does. */
interface Questions {
  next: number;
  /** Queries have come since the last question was sent. */
  due: boolean;
  againAtMs: number;
  /** Queries that wait for an answer. */
  open: number;
}

export class WaitingReads {
  readonly #isBehind: (group: Group | undefined) => boolean;
  readonly #end: (read: WaitingRead, ending: Ending) => void;
  #waiting: WaitingRead[] = [];
  #bytes = 0;
  /** Topics that ended since the last turn. */
  readonly #left = new Set<number>();
  readonly #questions = new Map<Group, Questions>();
  readonly #firstQuestion: number;

  /** `boot` names this run of the process: an answer to the one before may still be on its way. */
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
  untilCaughtUp(group: Group | undefined, slot: number, frame: Uint8Array, clockMs: number): boolean {
    return this.#add({ group, slot, frame, sinceMs: clockMs, question: -1, index: Infinity });
  }

  /** Keeps a copy of the frame until the leader has told how far its log is committed, and this node is there. */
  untilConfirmed(group: Group, slot: number, frame: Uint8Array, clockMs: number): boolean {
    let questions = this.#questions.get(group);
    if (questions === undefined) {
      questions = { next: this.#firstQuestion, due: false, againAtMs: 0, open: 0 };
      this.#questions.set(group, questions);
    }
    if (!this.#add({ group, slot, frame, sinceMs: clockMs, question: questions.next, index: Infinity })) return false;
    questions.due = true;
    questions.open++;
    return true;
  }

  /** Asks the leaders, one question per group for everything that arrived. Before the messages of a turn leave. */
  ask(clockMs: number): void {
    for (const [group, questions] of this.#questions) {
      if (questions.open === 0 || (!questions.due && clockMs < questions.againAtMs)) continue;
      questions.due = false;
      questions.againAtMs = clockMs + ASK_AGAIN_MS;
      // Nobody to ask, or a message that is lost: again later.
      if (group.raft.readIndex(questions.next)) questions.next++;
    }
  }

  /** Answers of leaders. */
  confirmed(group: Group, states: readonly ReadState[]): void {
    const questions = this.#questions.get(group);
    if (questions === undefined) return;
    for (const { context, index } of states) {
      // Refused; or the answer to a question of an earlier process.
      if (index === 0 || context >= questions.next) continue;
      for (const read of this.#waiting) {
        if (read.group !== group || read.index !== Infinity || read.question < 0 || read.question > context) continue;
        read.index = index;
        questions.open--;
      }
    }
  }

  /**
   * The topic is over before its read was answered: the answer subscribes nothing. Many may leave during one catch-up, so they
   * are looked for together, when answers are given; a number is not used again for another topic meanwhile (server/gateway.ts).
   */
  unwatch(topic: number): void {
    if (this.#waiting.length > 0) this.#left.add(topic);
  }

  /** Once a turn, after apply and with the live events sent. */
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

  /** Takes everything out. */
  stop(): void {
    this.#clearLeft();
    for (const read of this.#waiting.splice(0)) this.#finish(read, 'stop');
  }

  #clearLeft(): void {
    if (this.#left.size === 0) return;
    for (const { frame } of this.#waiting) clearTopic(frame, this.#left);
    this.#left.clear();
  }

  #ending(read: WaitingRead, clockMs: number): Ending | undefined {
    const waitedMs = clockMs - read.sinceMs;
    if (read.question < 0) {
      if (!this.#isBehind(read.group)) return 'answer';
      return waitedMs < CATCH_UP_WAIT_MS ? undefined : 'refuse';
    }
    const { appliedIndex } = (read.group as Group).state;
    return appliedIndex >= read.index || waitedMs >= MISSING_WAIT_MS ? 'answer-anyway' : undefined;
  }

  #finish(read: WaitingRead, ending: Ending): void {
    this.#bytes -= read.frame.length + OVERHEAD_BYTES;
    if (read.question >= 0 && read.index === Infinity) {
      (this.#questions.get(read.group as Group) as Questions).open--;
    }
    this.#end(read, ending);
  }

  #add(read: WaitingRead): boolean {
    const bytes = read.frame.length + OVERHEAD_BYTES;
    if (this.#bytes + bytes > WAITING_BYTES_MAX) return false;
    this.#bytes += bytes;
    this.#waiting.push({ ...read, frame: read.frame.slice() });
    return true;
  }
}
