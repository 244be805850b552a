/// <reference lib="es2024.sharedmemory" />
import { assert } from '../base/assert.ts';
import { CONTROL_WORDS, READER_PARKED } from './layout.ts';
import type { RingReader } from './ring.ts';

/**
 * Parking and waking across threads. Chosen by measurement, 2 cores, Node 20, other work on the machine:
 *
 *   round trip, two wake-ups     hot p50 / CPU of both    every 2 ms p50 / CPU (timer included)
 *   Atomics.waitAsync             9 us  / 13 us           20-60 us / 80-110 us
 *   MessagePort.postMessage       8 us  / 11 us           20-57 us / 80-115 us
 *   Atomics.wait in the worker    5 us  /  7 us           10-38 us / 44-80 us    stops its timers, sockets and commits
 *
 * Behind uWebSockets.js (wrk, 100 connections, one 4 KiB fdatasync per turn: 50,000 to 60,000 req/s; without: 125,000)
 * the first two are equal within noise, since the flag lets only the first publish after a sleep notify: 60 to 90
 * requests per notify without a disk, 200 to 600 with one, also when main publishes every request by itself; 7 at 8
 * connections. So waitAsync: no port to carry around and no message to allocate. Looking at the ring for 1, 2 or 8
 * more setImmediate turns before sleeping was tried on either side: no gain under load, 2 to 8 us more CPU per wake-up
 * in ping-pong; left out. A pair of parked threads uses 0.06 % of a core.
 */

/** The other thread's side: wakes the reader of a ring. */
export class Waker {
  readonly #control: Int32Array<SharedArrayBuffer>;

  constructor(sab: SharedArrayBuffer) {
    this.#control = new Int32Array(sab, 0, CONTROL_WORDS);
  }

  /** Only after `publish()` returned true, which cleared the flag: one notify per sleep of the reader, at any load. */
  wake(): void {
    // Notifies all waiters, because one left behind by a closed watch or an ended thread must not take the notification
    // from the live one.
    Atomics.notify(this.#control, READER_PARKED);
  }

  /**
   * Wakes the reader without a record, e.g. because a full ring of the other direction has space again. The change must
   * be visible to its parker's `ready` before this call.
   */
  interrupt(): void {
    if (Atomics.compareExchange(this.#control, READER_PARKED, 1, 0) === 1) this.wake();
  }
}

/**
 * The sleeping side of one ring. Why no wake-up is lost:
 *   1. `sleep` sets READER_PARKED, then asks `ready`, which looks at the ring again; a record
 *      published before the flag was set is found here.
 *   2. A record published after that finds the flag, clears it and notifies.
 *   3. When that falls between 1 and `waitAsync`, the value is no longer 1 and `waitAsync` answers "not-equal" at once.
 *
 * `waitAsync` never gets a timeout and is never abandoned: a waiter hangs on the address, not on the value, so one
 * that was left behind by a timer or a local event serves the next sleep. At most one promise is pending per ring, and
 * a notification that comes late only ends the next sleep early. (With a timeout, each call that is notified early
 * leaves about 280 bytes behind until the timeout is due: 15 MB per 50,000 calls, measured.)
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
 * For an async loop in a worker thread: `await parker.park(timeoutMs)` when a turn found nothing to do. The event loop
 * always turns at least once in a `park`, so a loop that finds work every time does not starve sockets and timers. A
 * pending park does not keep the thread alive: something else has to (a listener on parentPort, a socket).
 */
export class Parker {
  readonly #sleeper: Sleeper;
  #resolve: (() => void) | undefined;
  #unparked = false;
  #timer: NodeJS.Timeout | undefined;
  #timerAtMs = Infinity;
  #deadlineMs = Infinity;
  // The process's timer, not the port's: it sleeps a real thread, must keep it alive, and is set without a closure.
  readonly #onTimer = (): void => this.#timeout();
  readonly #finish = (): void => {
    const resolve = this.#resolve;
    this.#resolve = undefined;
    this.#unparked = false;
    resolve?.();
  };
  /**
   * Behind what else the event loop has in this round: the frames of the other nodes come by several sockets, and those
   * that are there together make one turn. When the first of them made a turn, three nodes took up to twice as many.
   */
  readonly #finishSoon = (): void => void setImmediate(this.#finish);

  /**
   * `ready` is checked before every sleep: is there work? Pass your own when records are not the only work, e.g. while
   * a reply waits for space (`() => writer.reserve(bytes) >= 0`, announced by `Waker.interrupt`) and no further request
   * can be taken.
   */
  constructor(reader: RingReader, ready = (): boolean => reader.hasNext()) {
    this.#sleeper = new Sleeper(reader, ready, this.#finishSoon);
  }

  /**
   * Resolves when a record was published, `ready` holds, `unpark` was called (also before), or after `timeoutMs`
   * (Infinity: never). May resolve early for nothing: the loop looks at everything again anyway.
   */
  park(timeoutMs: number): Promise<void> {
    assert(this.#resolve === undefined, 'the parker is parked already');
    this.#deadlineMs = timeoutMs === Infinity ? Infinity : performance.now() + timeoutMs;
    return new Promise((resolve) => {
      this.#resolve = resolve;
      if (this.#unparked || !this.#sleep()) this.#finishSoon();
    });
  }

  /** Ends the park from this thread; without one, the next park returns after one turn of the event loop. */
  unpark(): void {
    if (!this.#sleeper.sleeping) {
      this.#unparked = true;
      return;
    }
    this.#sleeper.rouse();
    this.#finishSoon();
  }

  /** Releases the timer when the loop ends. */
  close(): void {
    clearTimeout(this.#timer);
  }

  #sleep(): boolean {
    if (!this.#sleeper.sleep()) return false;
    if (this.#deadlineMs < this.#timerAtMs) this.#startTimer();
    return true;
  }

  /** A timer that is due before the deadline stays and is set again when it fires, so most parks start no timer. */
  #startTimer(): void {
    clearTimeout(this.#timer);
    this.#timerAtMs = this.#deadlineMs;
    this.#timer = setTimeout(this.#onTimer, Math.max(1, this.#deadlineMs - performance.now()));
  }

  #timeout(): void {
    this.#timerAtMs = Infinity;
    this.#timer = undefined;
    if (!this.#sleeper.sleeping || this.#deadlineMs === Infinity) return;
    // Timers may fire up to 1 ms early; such an end still counts as a timeout.
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
 * For the main thread: calls `drain` whenever records wait. `drain` reads as many as it wants and releases them. When
 * it leaves records behind, it is called again after one turn of the event loop, so that sockets get a turn in between.
 * Never keeps the process alive.
 */
export function onReplies(reader: RingReader, drain: () => void): ReplyWatch {
  let closed = false;
  let draining = false;
  // Behind the event loop's round, as a park ends: more answers are there by then.
  const wakeUp = (): void => void setImmediate(run);
  const sleeper = new Sleeper(reader, () => reader.hasNext(), wakeUp);
  function drainOnce(): void {
    draining = true;
    drain();
    draining = false;
  }
  function run(): void {
    if (closed) return;
    if (reader.hasNext()) drainOnce(); // `poll` may have been faster than the notification
    settle();
  }
  function settle(): void {
    if (!closed && !sleeper.sleep()) setImmediate(run);
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
