/**
 * One coarse clock for everything that live readers wait for: long-poll deadlines, keep-alive comments, ends of event
 * streams, lingering topics. A timer of its own for each of 65,536 readers would cost more than the readers do.
 *
 * A wheel of slots, each SLOT_MS wide. An entry fires at the end of the slot that holds its due
 * time: never early, at most SLOT_MS late (more when the thread is busy). Entries beyond one
 * turn of the wheel wait in their slot for a later turn.
 */
import { assert } from '../base/assert.ts';
import type { ErrorLog } from '../ports.ts';

/** Width of a slot. A long-poll of 500 ms is answered at most 10 % late. */
export const SLOT_MS = 50;
/** 102 s in one turn: longer than any long-poll (60 s) and the usual event stream (60 s). */
const SLOT_COUNT = 2048;

const UNSCHEDULED = -1;
const FIRING = -2;

/** Something that waits for a time. The fields belong to the clock. */
export abstract class Timed {
  dueMs = 0;
  slot = UNSCHEDULED;
  slotIndex = 0;
  abstract onTime(clockMs: number): void;
  /** The id of the request that waits; undefined when no single request does. Asked for only when onTime threw. */
  get requestId(): string | undefined {
    return undefined;
  }
  /** onTime threw, which is logged already. */
  onTimeFailed(): void {}
}

export class Clock {
  /** Time of the last tick or schedule, good enough for "when did I write last". */
  clockMs: number;
  readonly #monotonicMs: () => number;
  readonly #log: ErrorLog;
  readonly #slots: Timed[][] = Array.from({ length: SLOT_COUNT }, () => []);
  /** Number of the last slot that was served, counted from time zero. */
  #tick: number;
  #count = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(monotonicMs: () => number, log: ErrorLog) {
    this.#log = log;
    this.#monotonicMs = monotonicMs;
    this.clockMs = monotonicMs();
    this.#tick = Math.floor(this.clockMs / SLOT_MS);
  }

  /** Entries that wait. */
  get size(): number {
    return this.#count;
  }

  /** `entry.onTime` is called once, `delayMs` from now; an earlier appointment of the entry is dropped. */
  schedule(entry: Timed, delayMs: number): void {
    if (entry.slot !== UNSCHEDULED) this.cancel(entry);
    if (this.#count === 0) this.#start();
    this.clockMs = this.#monotonicMs();
    entry.dueMs = this.clockMs + delayMs;
    this.#put(entry);
    this.#count++;
  }

  cancel(entry: Timed): void {
    if (entry.slot === UNSCHEDULED) return;
    if (entry.slot !== FIRING) {
      const slot = this.#slots[entry.slot] as Timed[];
      const last = slot.pop() as Timed;
      if (last !== entry) {
        slot[entry.slotIndex] = last;
        last.slotIndex = entry.slotIndex;
      }
    }
    entry.slot = UNSCHEDULED;
    this.#count--;
    if (this.#count === 0) this.#stop();
  }

  /** Fires what is due. The timer calls it; tests do too. */
  advance(): void {
    this.clockMs = this.#monotonicMs();
    const target = Math.floor(this.clockMs / SLOT_MS);
    // After a long stall one turn serves every slot; more turns would find the same entries again.
    const first = Math.max(this.#tick + 1, target - SLOT_COUNT + 1);
    this.#tick = target;
    for (let tick = first; tick <= target; tick++) this.#serve(tick % SLOT_COUNT);
    if (this.#count === 0) this.#stop();
  }

  #serve(slotNumber: number): void {
    const entries = this.#slots[slotNumber] as Timed[];
    if (entries.length === 0) return;
    // Handlers may schedule and cancel anything, so the slot is emptied before the first one runs.
    this.#slots[slotNumber] = [];
    for (const entry of entries) entry.slot = FIRING;
    for (const entry of entries) {
      if (entry.slot !== FIRING) continue;
      if (entry.dueMs > this.clockMs) {
        this.#put(entry);
        continue;
      }
      entry.slot = UNSCHEDULED;
      this.#count--;
      try {
        entry.onTime(this.clockMs);
      } catch (error) {
        this.#log(error, 'live reader', entry.requestId);
        entry.onTimeFailed();
      }
    }
  }

  #put(entry: Timed): void {
    const tick = Math.max(Math.ceil(entry.dueMs / SLOT_MS), this.#tick + 1);
    entry.slot = tick % SLOT_COUNT;
    const slot = this.#slots[entry.slot] as Timed[];
    entry.slotIndex = slot.length;
    slot.push(entry);
  }

  #start(): void {
    this.clockMs = this.#monotonicMs();
    this.#tick = Math.floor(this.clockMs / SLOT_MS);
    if (this.#timer !== undefined) return;
    this.#timer = setInterval(() => this.advance(), SLOT_MS);
    // Sockets keep the process alive, not this clock.
    this.#timer.unref();
  }

  #stop(): void {
    assert(this.#count === 0, 'a clock with entries must tick');
    if (this.#timer !== undefined) clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
