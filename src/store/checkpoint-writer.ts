/**
 * Writes the rows of a checkpoint in one commit. In the server a thread does it (workers/checkpoint.ts): B-trees, page
 * writes and two flushes take milliseconds, during which the shard goes on.
 */
import process from 'node:process';
import { type MessagePort, MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import { type Pending, applyChanges } from '../base/overlay.ts';
import type { Tx } from '../base/tx.ts';
import { PageDamage } from './lmdb-damage.ts';
import type { SideThread } from './log-sync.ts';
import { type SentRows, rowsToSend, sentRows } from './shared-rows.ts';
import { endForeignLine, isFull } from './volume.ts';

/** How the commit that was started ended. */
export type WriteOutcome = 'written' | { readonly failed: unknown };

export interface CheckpointWriter {
  /** The one before has ended. */
  start(changes: Iterable<Pending>): void;
  /** Undefined: it is under way. */
  outcome(): WriteOutcome | undefined;
  wait(): WriteOutcome;
  close(): Promise<void>;
}

/** Writes at once, on the caller's thread. */
export class InlineWriter implements CheckpointWriter {
  readonly #commit: (write: () => void) => void;
  readonly #tx: Tx;
  #outcome: WriteOutcome = 'written';

  constructor(commit: (write: () => void) => void, tx: Tx) {
    this.#commit = commit;
    this.#tx = tx;
  }

  start(changes: Iterable<Pending>): void {
    try {
      this.#commit(() => applyChanges(this.#tx, changes));
      this.#outcome = 'written';
    } catch (error) {
      endForeignLine();
      this.#outcome = { failed: error };
    }
  }

  outcome(): WriteOutcome {
    return this.#outcome;
  }

  wait(): WriteOutcome {
    return this.#outcome;
  }

  async close(): Promise<void> {}
}

const WRITING = 0;
const WRITTEN = 1;
const FAILED = 2;
/** A flush that takes longer is an error of the disk. */
const WAIT_MS = 120_000;
/** The second word: the thread takes changes. */
const SERVES = 1;
/** A disk that hangs must not keep a thread that failed. */
const SETTLE_MS = 2000;

/** To the thread. Errors lose their class on the way between threads. */
export interface WriterData {
  readonly directory: string;
  /** Two words: WRITING, WRITTEN or FAILED, and whether the thread has begun to serve. */
  readonly state: Int32Array;
  readonly port: MessagePort;
}

export interface WriteFailure {
  readonly isPageDamage: boolean;
  readonly code: unknown;
  readonly message: string;
}

export class ThreadWriter implements CheckpointWriter {
  readonly #state = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
  readonly #port: MessagePort;
  readonly #thread: SideThread;
  readonly #directory: string;
  /** Before the caller's thread ends, and this one with it: within a call of LMDB that would end the process by SIGABRT. */
  readonly settle = (): void => {
    Atomics.wait(this.#state, SERVES, 0, SETTLE_MS);
    Atomics.wait(this.#state, 0, WRITING, SETTLE_MS);
  };

  /** `start` makes the thread, which calls serveWriter() with this data and takes its port. */
  constructor(directory: string, start: (data: WriterData) => SideThread) {
    this.#directory = directory;
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    Atomics.store(this.#state, 0, WRITTEN);
    this.#thread = start({ directory, state: this.#state, port: port2 });
    // It has no listener: wait() and outcome() take the reason from it.
    port1.unref();
    process.once('exit', this.settle);
  }

  start(changes: Iterable<Pending>): void {
    Atomics.store(this.#state, 0, WRITING);
    this.#port.postMessage(rowsToSend(changes));
  }

  outcome(): WriteOutcome | undefined {
    switch (Atomics.load(this.#state, 0)) {
      case WRITING:
        return undefined;
      case WRITTEN:
        return 'written';
      default:
        return { failed: failureOf(receiveMessageOnPort(this.#port)?.message) };
    }
  }

  wait(): WriteOutcome {
    if (Atomics.wait(this.#state, 0, WRITING, WAIT_MS) === 'timed-out')
      throw new Error(`${this.#directory}/data.mdb: a checkpoint took longer than ${WAIT_MS / 1000} s`);
    return this.outcome() ?? this.wait();
  }

  async close(): Promise<void> {
    const ended = new Promise<void>((resolve) => this.#thread.once('exit', () => resolve()));
    this.#port.close();
    await ended;
    process.off('exit', this.settle);
  }
}

function failureOf(failure: WriteFailure | undefined): unknown {
  if (failure === undefined) return new Error('a checkpoint failed');
  return failure.isPageDamage ? new PageDamage(failure.message) : failure;
}

/** The thread's side: takes changes until the port closes. */
export function serveWriter({ directory, state, port }: WriterData, commit: (write: () => void) => void, tx: Tx): void {
  Atomics.store(state, SERVES, 1);
  Atomics.notify(state, SERVES);
  port.on('message', (rows: SentRows) => {
    let outcome = WRITTEN;
    try {
      commit(() => applyChanges(tx, sentRows(rows)));
    } catch (error) {
      endForeignLine();
      const { message } = error as { message: string };
      // Judged at once: space that is freed a moment later would make an error of the disk of it.
      const code = isFull(directory, error) ? 'ENOSPC' : (error as { code?: unknown }).code;
      port.postMessage({ isPageDamage: error instanceof PageDamage, code, message } satisfies WriteFailure);
      outcome = FAILED;
    }
    Atomics.store(state, 0, outcome);
    Atomics.notify(state, 0);
  });
}
