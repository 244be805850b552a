/**
 * Bounds on what a leader accepts. Hot bytes (those that only the nodes hold) are bounded, so that a slow or
 * unreachable cold store costs writes and never unbounded memory or disk; so are bytes that no majority has yet.
 * Refusals are 503 with Retry-After and end when the flusher or the peers catch up. A large body gets its turn
 * (gate.ts).
 */
import { type ErrorCode } from '../base/errors.ts';
import { LARGE_WAITING_BYTES_MAX } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import type { Raft } from '../raft/raft.ts';
import type { State } from '../stream/core/state.ts';
import { type Command } from '../protocol/command.ts';
import { Gate } from './gate.ts';
import { wouldAddBytes } from './would-add-bytes.ts';
import { commandsWhere } from '../protocol/operations.ts';

/** A group counts as refusing so long after its last refusal: large bodies may be refused where small ones pass. */
const REFUSING_MS = 1000;

/** Accepted commands of a group that are not proposed yet: those of this turn's entry, and large ones. */
interface WaitingBytes {
  readonly entryBytes: number;
  readonly largeBytes: number;
  /** The command itself would wait to be cut. */
  readonly isLarge: boolean;
}

/** Streams that no flush can move, because the disk changed a row of each. */
interface StuckStreams {
  /** Their hot bytes; 0 while others may still move. */
  readonly bytes: number;
  holds(incarnation: number): boolean;
}

export type AdmissionState = 'open' | 'pressure' | 'refusing';

export class Admission {
  /** Bounds the hot bytes of the group's writes; not without a cold store. */
  readonly hot = new Gate();
  /** Bounds proposed and not yet committed bytes; consensus has its own, far higher bound. */
  readonly uncommitted = new Gate();
  /** Refusals, the payload bytes refused, and the highest level of hot bytes so far, counted on the leader. */
  readonly counters = { hotRefusals: 0, uncommittedRefusals: 0, refusedBytes: 0, hotBytesHighest: 0 };
  #clockMs = 0;
  #refusedAtMs = -Infinity;
  #stuck: StuckStreams = { bytes: 0, holds: () => false };

  /** Asks the flusher from now on. */
  heed(stuck: StuckStreams): void {
    this.#stuck = stuck;
  }

  /** `clockMs` is the monotonic clock. */
  beginTurn(clockMs: number): void {
    this.#clockMs = clockMs;
  }

  /** Called after the group has applied something. */
  met(hotBytes: number): void {
    if (hotBytes > this.counters.hotBytesHighest) this.counters.hotBytesHighest = hotBytes;
  }

  /** Undefined means accepted. */
  refuses(
    command: Command,
    payloadBytes: number,
    state: State,
    raft: Raft,
    waiting: WaitingBytes,
    nowMs: number,
  ): ErrorCode | undefined {
    const { entryBytes, largeBytes, isLarge } = waiting;
    if (isLarge && largeBytes + payloadBytes > LARGE_WAITING_BYTES_MAX)
      return this.#refuse('UNCOMMITTED_FULL', payloadBytes);
    if (payloadBytes === 0 || !ADDS_BYTES.has(command.kind)) return undefined;
    const proposed = raft.uncommittedBytes + entryBytes;
    // Small commands pass between the pieces of those that wait.
    const uncommitted = isLarge ? proposed + largeBytes : proposed;
    const growing = proposed + largeBytes + state.partial.receivedBytes;
    const addsToStuck = this.#addsToStuck(state, command);
    const waits = addsToStuck ? state.hotBytes : this.movableBytes(state);
    const hot = (planted('pressure-for-ever') ? this.counters.hotBytesHighest : waits) + growing;
    this.met(hot);
    const clockMs = this.#clockMs;
    if (!this.hot.hasRoom(hot, payloadBytes, clockMs)) {
      // The check is exact only if the command meets the current state: queued commands may change it so that this one
      // adds bytes.
      const isExact = entryBytes + largeBytes === 0 && raft.lastIndex === state.appliedIndex;
      if (isExact && !wouldAddBytes(state, command, payloadBytes, nowMs)) return undefined;
      // Its turn would never come, and the others would wait for it.
      if (!addsToStuck) this.hot.refused(payloadBytes, clockMs);
      this.counters.hotRefusals++;
      return this.#refuse('BACKPRESSURE', payloadBytes);
    }
    if (!this.uncommitted.hasRoom(uncommitted, payloadBytes, clockMs)) {
      this.uncommitted.refused(payloadBytes, clockMs);
      this.counters.uncommittedRefusals++;
      return this.#refuse('UNCOMMITTED_FULL', payloadBytes);
    }
    this.hot.passed(payloadBytes, clockMs);
    this.uncommitted.passed(payloadBytes, clockMs);
    return undefined;
  }

  /** Hot bytes that flushes move. Stuck ones refuse writes to their own streams only, not all of them for good. */
  movableBytes(state: State): number {
    return Math.max(0, state.hotBytes - this.#stuck.bytes);
  }

  /** The write is to a stream whose bytes stay. */
  #addsToStuck(state: State, { bytes, keyAt, keyBytes }: Command): boolean {
    if (this.#stuck.bytes === 0) return false;
    const head = state.findAny(bytes, keyAt, keyBytes);
    return head !== undefined && this.#stuck.holds(head.incarnation);
  }

  /** The figures for the metrics. */
  show(state: State): AdmissionState {
    const isRecent = this.#clockMs - this.#refusedAtMs < REFUSING_MS;
    if (this.movableBytes(state) >= this.hot.bytesMax || isRecent) return 'refusing';
    return this.underPressure(state) ? 'pressure' : 'open';
  }

  /** Half full, or a large body waits for space: flush everything hot now, whatever its age. */
  underPressure(state: State): boolean {
    return this.movableBytes(state) >= this.hot.bytesMax / 2 || this.hot.reservedAt(this.#clockMs) > 0;
  }

  #refuse(code: ErrorCode, payloadBytes: number): ErrorCode {
    this.counters.refusedBytes += payloadBytes;
    this.#refusedAtMs = this.#clockMs;
    return code;
  }
}

/** Commands whose payload becomes hot bytes. Closing, deleting and everything else without a payload always passes. */
const ADDS_BYTES = commandsWhere(({ wouldAddBytes }) => wouldAddBytes);
