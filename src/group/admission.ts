/**
 * Bounds on what a leader takes in: bytes that only the nodes hold (hot), so that a cold store that lags behind or is away
 * costs writes and never memory or disk without end; and bytes that no majority has yet. Refusals are 503 with Retry-After,
 * and end by themselves when the flusher or the peers catch up.
 */
import { type ErrorCode } from '../base/errors.ts';
import type { Raft } from '../raft/raft.ts';
import type { State } from '../stream/state.ts';
import {
  COMMAND_APPEND,
  COMMAND_APPEND_BATCH,
  COMMAND_CREATE,
  COMMAND_FORK_DATA,
  COMMAND_FORK_END,
  type Command,
} from '../wire/command.ts';
import { grows } from './grows.ts';

/** A group counts as refusing for this long after its last refusal: one large body may be refused where small ones pass. */
const REFUSING_MS = 1000;

export type AdmissionState = 'open' | 'pressure' | 'refusing';

export class Admission {
  /** Hot bytes that the group's writes may reach; Infinity without a cold store. */
  hotBytesMax = Infinity;
  /** Proposed and not yet committed bytes; consensus has a bound of its own far above. */
  uncommittedBytesMax = Infinity;
  /** Refusals, the payload bytes that were refused, and the highest level of hot bytes so far, on whatever node leads. */
  readonly counters = { hotRefusals: 0, uncommittedRefusals: 0, refusedBytes: 0, hotBytesHighest: 0 };
  #clockMs = 0;
  #refusedAtMs = -Infinity;

  /** By the clock that never steps. */
  beginTurn(clockMs: number): void {
    this.#clockMs = clockMs;
  }

  /** The group has applied something. */
  met(hotBytes: number): void {
    if (hotBytes > this.counters.hotBytesHighest) this.counters.hotBytesHighest = hotBytes;
  }

  /** Undefined: taken. `building` is what this turn's entry already holds. */
  refuses(
    command: Command,
    payloadBytes: number,
    state: State,
    raft: Raft,
    building: number,
    nowMs: number,
  ): ErrorCode | undefined {
    if (payloadBytes === 0 || !GROWS.has(command.kind)) return undefined;
    const uncommitted = raft.uncommittedBytes + building;
    const hot = state.hotBytes + uncommitted;
    this.met(hot);
    // Alone, a body passes that is larger than the bound: nothing would ever make room for it.
    if (hot > 0 && hot + payloadBytes > this.hotBytesMax) {
      // Only where the state is what the command will meet: behind others it might bring bytes after all.
      const isExact = building === 0 && raft.lastIndex === state.appliedIndex;
      if (isExact && !grows(state, command, payloadBytes, nowMs)) return undefined;
      this.counters.hotRefusals++;
      return this.#refuse('BACKPRESSURE', payloadBytes);
    }
    if (uncommitted > 0 && uncommitted + payloadBytes > this.uncommittedBytesMax) {
      this.counters.uncommittedRefusals++;
      return this.#refuse('UNCOMMITTED_FULL', payloadBytes);
    }
    return undefined;
  }

  /** What the metrics show. */
  show(state: State): AdmissionState {
    const isRecent = this.#clockMs - this.#refusedAtMs < REFUSING_MS;
    if (state.hotBytes >= this.hotBytesMax || isRecent) return 'refusing';
    return this.underPressure(state) ? 'pressure' : 'open';
  }

  /** Half full: everything hot is flushed now, whatever its age. */
  underPressure(state: State): boolean {
    return state.hotBytes >= this.hotBytesMax / 2;
  }

  #refuse(code: ErrorCode, payloadBytes: number): ErrorCode {
    this.counters.refusedBytes += payloadBytes;
    this.#refusedAtMs = this.#clockMs;
    return code;
  }
}

/** Commands whose payload becomes hot bytes. Closing, deleting and everything else without a payload always passes. */
const GROWS: ReadonlySet<number> = new Set([
  COMMAND_APPEND,
  COMMAND_CREATE,
  COMMAND_APPEND_BATCH,
  COMMAND_FORK_DATA,
  COMMAND_FORK_END,
]);
