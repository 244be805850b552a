/**
 * Syncs the log while the shard goes on, where that pays: on a disk that takes milliseconds for it. A thread waits in the
 * system then (workers/sync.ts), and the shard forwards, replicates and answers meanwhile. A fast disk is waited for:
 * two wake-ups cost more than its sync. The thread is made when the disk is slow for the first time.
 */
import { fdatasyncSync } from 'node:fs';
import { getSystemErrorMap } from 'node:util';
import { assert } from '../base/assert.ts';
import { type SegmentFile, LogSyncError } from './log-files.ts';

export interface LogSyncer {
  /** Puts what was written to the file on disk. `behind`: false when that is under way, and ended() tells its end. */
  sync(file: SegmentFile, how: 'wait' | 'behind'): boolean;
  /** Whether the sync that was under way has ended. Throws what sync() of the file would. */
  ended(how: 'look' | 'wait'): boolean;
  close(): Promise<void>;
}

/** Waits for every sync. */
export const WAITING_SYNCER: LogSyncer = {
  sync: (file) => {
    file.sync();
    return true;
  },
  ended: () => true,
  close: async () => undefined,
};

/** Mean of the last syncs from which on the next one is waited for by the thread, and below which it is no longer. */
const SLOW_MS = 2;
const FAST_MS = 1;
/** Weight of the last sync in the mean: about the last thirty count. */
const WEIGHT = 1 / 32;

/** Words that both threads see. */
const [STATE, DESCRIPTOR, ERROR, MICROS] = [0, 1, 2, 3];
const WORDS = 4;

const STARTING = 0;
const IDLE = 1;
const SYNCING = 2;
const ENDED = 3;
const CLOSED = 4;

/** The system's number for EIO, where an error has none. */
const UNKNOWN_ERROR = -5;
/** A sync that takes longer is an error of the disk. */
const WAIT_MS = 120_000;

/** A thread beside that of a shard. */
export interface SideThread {
  once(event: 'error' | 'exit', listener: (error: unknown) => void): unknown;
}

export interface ThreadSyncerOptions {
  /** Makes the thread, which calls serveSyncs() with these words. */
  readonly start: (words: Int32Array<SharedArrayBuffer>) => SideThread;
  readonly clockMs: () => number;
  /** There is no thread, and every sync is waited for. */
  readonly failed: (error: unknown) => void;
}

export class ThreadSyncer implements LogSyncer {
  readonly #options: ThreadSyncerOptions;
  readonly #words = new Int32Array(new SharedArrayBuffer(WORDS * Int32Array.BYTES_PER_ELEMENT));
  #thread: SideThread | undefined;
  #hasNoThread = false;
  /** Nothing is known of the disk any more. */
  #error: LogSyncError | undefined;
  #meanMs = 0;
  #isSlow = false;
  #file: SegmentFile | undefined;

  constructor(options: ThreadSyncerOptions) {
    this.#options = options;
  }

  /** Something to look at with ended(). */
  get hasEnded(): boolean {
    return this.#file !== undefined && Atomics.load(this.#words, STATE) === ENDED;
  }

  sync(file: SegmentFile, how: 'wait' | 'behind'): boolean {
    if (this.#error !== undefined) throw this.#error;
    if (how === 'wait' || !this.#isSlow || file.descriptor === undefined || !this.#isIdle()) {
      const startedMs = this.#options.clockMs();
      file.sync();
      this.#took(this.#options.clockMs() - startedMs);
      return true;
    }
    this.#file = file;
    Atomics.store(this.#words, DESCRIPTOR, file.descriptor);
    this.#change(SYNCING);
    return false;
  }

  ended(how: 'look' | 'wait'): boolean {
    if (this.#error !== undefined) throw this.#error;
    const file = this.#file;
    if (file === undefined) return true;
    if (how === 'wait' && Atomics.wait(this.#words, STATE, SYNCING, WAIT_MS) === 'timed-out')
      throw this.#failed(file, `no answer for ${WAIT_MS / 1000} s`);
    if (Atomics.load(this.#words, STATE) !== ENDED) return false;
    const error = Atomics.load(this.#words, ERROR);
    if (error !== 0) {
      const [name, text] = getSystemErrorMap().get(error) ?? [`error ${error}`, 'unknown'];
      throw this.#failed(file, `${name}: ${text}, fdatasync`);
    }
    this.#file = undefined;
    Atomics.store(this.#words, STATE, IDLE);
    this.#took(Atomics.load(this.#words, MICROS) / 1000);
    return true;
  }

  #failed(file: SegmentFile, why: string): LogSyncError {
    this.#file = undefined;
    return (this.#error = new LogSyncError(`${file.name} of the log could not be synced: ${why}`));
  }

  async close(): Promise<void> {
    assert(this.#file === undefined, 'no sync is under way');
    const thread = this.#thread;
    if (thread === undefined) return;
    const hasExited = new Promise((resolve) => thread.once('exit', resolve));
    this.#change(CLOSED);
    await hasExited;
  }

  /** Starts the thread, which is there for a later sync. */
  #isIdle(): boolean {
    if (this.#thread === undefined && !this.#hasNoThread) this.#start();
    return this.#thread !== undefined && Atomics.load(this.#words, STATE) === IDLE;
  }

  #start(): void {
    const lose = (error: unknown): void => {
      this.#thread = undefined;
      this.#hasNoThread = true;
      this.#options.failed(error);
      if (this.#file !== undefined) this.#failed(this.#file, 'its thread has ended');
    };
    try {
      this.#thread = this.#options.start(this.#words);
      this.#thread.once('error', lose);
    } catch (error) {
      lose(error);
    }
  }

  #took(tookMs: number): void {
    this.#meanMs += WEIGHT * (tookMs - this.#meanMs);
    this.#isSlow = this.#meanMs > (this.#isSlow ? FAST_MS : SLOW_MS);
  }

  #change(state: number): void {
    Atomics.store(this.#words, STATE, state);
    Atomics.notify(this.#words, STATE);
  }
}

interface SyncThread {
  readonly words: Int32Array<SharedArrayBuffer>;
  readonly clockMs: () => number;
  /** Tells the shard of each end. */
  readonly wake: () => void;
}

/** The thread's side: one sync after the other, until it is closed. */
export function serveSyncs({ words, clockMs, wake }: SyncThread): void {
  Atomics.compareExchange(words, STATE, STARTING, IDLE);
  for (;;) {
    const state = Atomics.load(words, STATE);
    if (state === CLOSED) return;
    if (state !== SYNCING) {
      Atomics.wait(words, STATE, state);
      continue;
    }
    let error = 0;
    const startedMs = clockMs();
    try {
      fdatasyncSync(Atomics.load(words, DESCRIPTOR));
    } catch (caught) {
      const isNamed = caught instanceof Error && 'errno' in caught && typeof caught.errno === 'number';
      error = isNamed ? Number(caught.errno) : UNKNOWN_ERROR;
    }
    Atomics.store(words, ERROR, error);
    Atomics.store(words, MICROS, Math.round(1000 * (clockMs() - startedMs)));
    Atomics.store(words, STATE, ENDED);
    Atomics.notify(words, STATE);
    wake();
  }
}
