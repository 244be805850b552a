/// <reference lib="es2024.sharedmemory" />
import { assert } from '../base/assert.ts';
import { CONTROL_WORDS, READER_PARKED } from './layout.ts';
import type { RingReader } from './ring.ts';

/** Event-loop turns that a reader looks at its ring before it sleeps. */
export const LINGER_TURNS = 0;

/** The other thread's side: wakes the reader of a ring. */
export class Waker {
  readonly #control: Int32Array<SharedArrayBuffer>;

  constructor(sab: SharedArrayBuffer) {
    this.#control = new Int32Array(sab, 0, CONTROL_WORDS);
  }

  /** Only after `publish()` said true, which already took the flag: one notify per sleep of the reader, whatever the load. */
  wake(): void {
    Atomics.notify(this.#control, READER_PARKED, 1);
  }

  /**
   * Wakes the reader without a record, e.g. because a full ring of the other direction has space again. What it should notice
   * has to be visible before this call, and to its parker's `ready`.
   */
  interrupt(): void {
    if (Atomics.compareExchange(this.#control, READER_PARKED, 1, 0) === 1) this.wake();
  }
}

/**
 * The sleeping side of one ring. Why no wake-up is lost:
 *   1. `sleep` sets READER_PARKED, then asks `ready`, which looks at the ring again; a record published before the flag was set
 *      is found here.
 *   2. A record published after that finds the flag, clears it and notifies.
 *   3. When that falls between 1 and `waitAsync`, the value is no longer 1 and `waitAsync` answers "not-equal" at once.
 *
 * `waitAsync` never gets a timeout and is never abandoned: a waiter hangs on the address, not on the value, so one that was
 * left behind by a timer or a local event serves the next sleep. At most one promise is pending per ring, and a notification that
 * comes late only ends the next sleep early. (With a timeout each call leaves a delayed task in Node's platform until it expires.)
 */
class Sleeper {
  sleeping = false;
  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #ready: () => boolean;
  readonly #onWake: () => void;
  readonly #onNotified: () => void;
  #armed = false;

  constructor(reader: RingReader, ready: () => boolean, onWake: () => void) {
    this.#ready = ready;
    this.#onWake = onWake;
    this.#control = new Int32Array(reader.sab, 0, CONTROL_WORDS);
    this.#onNotified = (): void => {
      this.#armed = false;
      if (!this.sleeping) return;
      this.rouse();
      this.#onWake();
    };
  }

  /** False: there is work already, do not sleep. True: `onWake` will be called. */
  sleep(): boolean {
    assert(!this.sleeping, 'a ring has one sleeper');
    Atomics.store(this.#control, READER_PARKED, 1);
    if (this.#ready() || !this.#arm()) {
      Atomics.store(this.#control, READER_PARKED, 0);
      return false;
    }
    this.sleeping = true;
    return true;
  }

  /** Ends the sleep from this thread. */
  rouse(): void {
    this.sleeping = false;
    Atomics.store(this.#control, READER_PARKED, 0);
  }

  #arm(): boolean {
    if (this.#armed) return true;
    const waiter = Atomics.waitAsync(this.#control, READER_PARKED, 1);
    if (!waiter.async) return false;
    this.#armed = true;
    void waiter.value.then(this.#onNotified);
    return true;
  }
}

/**
 * For an async loop in a worker thread: `await parker.park(timeoutMs)` when a turn found nothing to do. The event loop always
 * turns at least once in a `park`, so a loop that finds work every time does not starve sockets and timers. A pending park
 * does not keep the thread alive: something else has to (a listener on parentPort, a socket).
 */
export class Parker {
  readonly #sleeper: Sleeper;
  readonly #ready: () => boolean;
  readonly #lingerTurns: number;
  #resolve: (() => void) | undefined;
  #unparked = false;
  #turnsLeft = 0;
  #timer: NodeJS.Timeout | undefined;
  #timerAtMs = Infinity;
  #deadlineMs = Infinity;
  readonly #onTurn = (): void => this.#turn();
  readonly #onTimer = (): void => this.#timeout();
  readonly #finish = (): void => {
    const resolve = this.#resolve;
    this.#resolve = undefined;
    this.#unparked = false;
    resolve?.();
  };

  /**
   * `ready` is asked before every sleep: is there work? Give your own when records are not all that counts, e.g. while a reply
   * waits for space (`() => writer.reserve(bytes) >= 0`, announced by `Waker.interrupt`) and no further request can be taken.
   */
  constructor(reader: RingReader, ready = (): boolean => reader.hasNext(), lingerTurns = LINGER_TURNS) {
    this.#ready = ready;
    this.#lingerTurns = lingerTurns;
    this.#sleeper = new Sleeper(reader, ready, this.#finish);
  }

  /** Resolves when a record was published, `ready` holds, `unpark` was called (also before), or after `timeoutMs` (Infinity: never). */
  park(timeoutMs: number): Promise<void> {
    assert(this.#resolve === undefined, 'the parker is parked already');
    this.#deadlineMs = timeoutMs === Infinity ? Infinity : performance.now() + timeoutMs;
    this.#turnsLeft = this.#lingerTurns;
    return new Promise((resolve) => {
      this.#resolve = resolve;
      if (this.#unparked || this.#turnsLeft > 0 || !this.#sleep()) setImmediate(this.#onTurn);
    });
  }

  /** Ends the park from this thread; without one, the next park returns after one turn of the event loop. */
  unpark(): void {
    if (!this.#sleeper.sleeping) {
      this.#unparked = true;
      return;
    }
    this.#sleeper.rouse();
    this.#finish();
  }

  /** Lets go of the timer; for the end of the loop. */
  close(): void {
    clearTimeout(this.#timer);
  }

  #turn(): void {
    if (this.#unparked || this.#ready()) return this.#finish();
    if (this.#turnsLeft > 0) this.#turnsLeft -= 1;
    if (this.#turnsLeft > 0 || !this.#sleep()) setImmediate(this.#onTurn);
  }

  #sleep(): boolean {
    if (!this.#sleeper.sleep()) return false;
    if (this.#deadlineMs < this.#timerAtMs) this.#startTimer();
    return true;
  }

  /** A timer that is due earlier than the deadline stays and is set again when it fires: most parks start none at all. */
  #startTimer(): void {
    clearTimeout(this.#timer);
    this.#timerAtMs = this.#deadlineMs;
    this.#timer = setTimeout(this.#onTimer, Math.max(1, this.#deadlineMs - performance.now()));
  }

  #timeout(): void {
    this.#timerAtMs = Infinity;
    this.#timer = undefined;
    if (!this.#sleeper.sleeping || this.#deadlineMs === Infinity) return;
    // Timers may fire up to 1 ms early; a park that ends so is still a timeout.
    if (performance.now() + 1 < this.#deadlineMs) return this.#startTimer();
    this.#sleeper.rouse();
    this.#finish();
  }
}

export type ReplyWatch = {
  /** Drains now, e.g. at the end of the handler that just wrote requests: saves the wake-up. */
  poll(): void;
  close(): void;
};

/**
 * For the main thread: calls `drain` whenever records wait. `drain` reads what it likes to read in one go and releases; when it
 * leaves records behind, it is called again after one turn of the event loop, so that sockets get theirs in between. Never
 * keeps the process alive.
 */
export function onReplies(reader: RingReader, drain: () => void, lingerTurns = LINGER_TURNS): ReplyWatch {
  let closed = false;
  let draining = false;
  let turnsLeft = 0;
  const sleeper = new Sleeper(reader, () => reader.hasNext(), run);
  function drainOnce(): void {
    draining = true;
    drain();
    draining = false;
  }
  function run(): void {
    if (closed) return;
    if (reader.hasNext()) drainOnce(); // `poll` may have been faster than the notification
    turnsLeft = lingerTurns;
    settle();
  }
  function settle(): void {
    if (turnsLeft > 0 || !sleeper.sleep()) setImmediate(turn);
  }
  function turn(): void {
    if (closed) return;
    if (reader.hasNext()) return run();
    turnsLeft -= 1;
    settle();
  }
  settle();
  return {
    poll(): void {
      if (!closed && !draining && reader.hasNext()) drainOnce();
    },
    close(): void {
      closed = true;
      if (sleeper.sleeping) sleeper.rouse();
    },
  };
}
