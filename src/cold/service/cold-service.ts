/**
 * The cold store on the main thread: its tasks run in separate threads, and each is answered exactly once
 * and never with an exception. Everything is bounded: tasks, the bytes they hold, a caller's wait, and
 * the time that a stopping process allows for running tasks.
 *
 * A task is never aborted through piscina, because that would end its thread with all other tasks in it. The store
 * bounds each operation; a task that hangs anyway (a network file system) is abandoned by its caller but keeps its slot
 * here.
 */
import { availableParallelism } from 'node:os';
import type { Runtime } from '../../base/runtime.ts';
import { threadEntry } from '../../threads/entry.ts';
import { type Closed, ThreadPool, ThreadsFailed } from '../../threads/thread-pool.ts';
import type { ColdFailure, ColdOp, ColdOutcome, ColdStorage, ColdTask } from '../ports.ts';
import { mergeBytes } from '../store/merge-objects.ts';
import type { AgeKeys } from '../../encryption/age.ts';
import type { Backend, ColdWork } from '../store/perform.ts';

/** Concurrent tasks per thread: they wait for the network nearly all the time. Also connections per thread. */
export const TASKS_PER_THREAD = 32;
/** One thread moves about 1 GiB/s; a second one helps where there are cores to spare. */
const THREADS_MAX = availableParallelism() >= 4 ? 2 : 1;
/** Running and queued. More would wait for many seconds, so the caller retries instead. */
const TASKS_MAX = 512;
/** Bodies of puts and results of gets that tasks hold or will hold. */
const BYTES_MAX = 256 * 1024 * 1024;
/** Added to the bound of the operation: time in the queue, and for a store that exceeds its bound. */
const LATE_MS = 5_000;
/** Peers and strangers may ask at any rate whether the store is reachable; it is probed no more often than this. */
const PROOF_MS = 1000;
/** How many operations a task takes, each with its own bound. A merge has hundreds of small reads, some concurrent. */
const STEPS: Readonly<Record<ColdOp, number>> = { put: 1, get: 1, list: 1, remove: 1, probe: 6, merge: 6 };

const BUSY: ColdFailure = { ok: false, failure: 'busy', message: 'too much work for the cold store is waiting' };
const STOPPED: ColdFailure = { ok: false, failure: 'stopped', message: 'the server is stopping' };

export interface ColdServiceOptions {
  readonly backend: Backend;
  /** Undefined: objects are not encrypted. */
  readonly keys?: AgeKeys | undefined;
  /** Bound of one operation. */
  readonly timeoutMs: number;
  readonly runtime: Runtime;
  readonly onError: (error: unknown) => void;
  /** Receives the outcome of each task before its caller does. */
  readonly onOutcome?: (op: ColdOp, outcome: ColdOutcome) => void;
}

export class ColdService implements ColdStorage {
  /** Tasks of shards and clients. */
  readonly counters = {
    cold_store_uploads: 0,
    cold_store_upload_bytes: 0,
    cold_store_upload_errors: 0,
    cold_store_removes: 0,
    cold_store_remove_errors: 0,
    cold_store_lists: 0,
    cold_store_list_errors: 0,
    cold_store_merges: 0,
    cold_store_merge_errors: 0,
  };
  readonly #threads: ThreadPool<ColdWork, ColdOutcome>;
  readonly #options: ColdServiceOptions;
  /** Those of the tasks to come. */
  keys: AgeKeys | undefined;
  #closed = false;
  #tasks = 0;
  #bytes = 0;
  #idle: (() => void) | undefined;
  #proof: Promise<ColdOutcome<'probe'>> | undefined;
  #proofUntilMs = -Infinity;

  constructor(options: ColdServiceOptions) {
    this.#options = options;
    this.keys = options.keys;
    this.#threads = new ThreadPool({
      title: 'the threads of the cold store',
      entry: threadEntry('pool'),
      task: 'cold',
      workerData: options.backend,
      threadsMax: THREADS_MAX,
      tasksPerThread: TASKS_PER_THREAD,
      queueMax: TASKS_MAX,
      idleMs: Infinity,
      runtime: options.runtime,
      onError: options.onError,
    });
  }

  /** Running and queued tasks. */
  get tasks(): number {
    return this.#tasks;
  }

  /** Bytes they hold. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A task of a shard or a client: it is counted, and probes of the same moment share their outcome. */
  async ask<Task extends ColdTask>(task: Task): Promise<ColdOutcome<Task['op']>> {
    if (task.op === 'probe') return (await this.#prove()) as ColdOutcome<Task['op']>;
    const bytes = bytesOf(task);
    const outcome = await this.run(task);
    this.#count(task, bytes, outcome.ok);
    return outcome;
  }

  /** Never rejects. The body of a put is detached from the caller's memory. */
  run<Task extends ColdTask>(task: Task): Promise<ColdOutcome<Task['op']>> {
    if (this.#closed) return Promise.resolve(STOPPED);
    // Encrypted bytes are there twice.
    const bytes = bytesOf(task) * (this.keys === undefined ? 1 : 2);
    // A single task is always accepted when there is nothing else.
    const isFull = this.#tasks >= TASKS_MAX || (this.#tasks > 0 && this.#bytes + bytes > BYTES_MAX);
    if (isFull) return Promise.resolve(BUSY);
    this.#tasks++;
    this.#bytes += bytes;
    const done = this.#perform(task).finally(() => {
      this.#tasks--;
      this.#bytes -= bytes;
      if (this.#tasks === 0) this.#idle?.();
    });
    return this.#bounded(done, task) as Promise<ColdOutcome<Task['op']>>;
  }

  /** Accepts no more tasks, allows running ones `waitMs`, and ends the threads. */
  async close(waitMs: number): Promise<Closed> {
    this.#closed = true;
    if (this.#tasks > 0) {
      let cancel: (() => void) | undefined;
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
        cancel = this.#options.runtime.setTimer(waitMs, resolve);
      });
      cancel?.();
    }
    return await this.#threads.close();
  }

  #prove(): Promise<ColdOutcome<'probe'>> {
    const { runtime } = this.#options;
    if (this.#proof === undefined || runtime.monotonicMs() > this.#proofUntilMs) {
      this.#proofUntilMs = Infinity;
      this.#proof = this.run({ op: 'probe' }).finally(() => {
        this.#proofUntilMs = runtime.monotonicMs() + PROOF_MS;
      });
    }
    return this.#proof;
  }

  #count(task: ColdTask, bytes: number, isOk: boolean): void {
    const { counters } = this;
    switch (task.op) {
      case 'put':
        counters[isOk ? 'cold_store_uploads' : 'cold_store_upload_errors']++;
        if (isOk) counters.cold_store_upload_bytes += bytes;
        break;
      case 'remove':
        if (isOk) counters.cold_store_removes += task.keys.length;
        else counters.cold_store_remove_errors++;
        break;
      case 'list':
        counters[isOk ? 'cold_store_lists' : 'cold_store_list_errors']++;
        break;
      case 'merge':
        counters[isOk ? 'cold_store_merges' : 'cold_store_merge_errors']++;
        break;
      case 'get':
      case 'probe':
    }
  }

  async #perform(task: ColdTask): Promise<ColdOutcome> {
    try {
      return await this.#threads.run({ task, keys: this.keys }, task.op === 'put' ? [task.body.buffer] : []);
    } catch (error) {
      if (this.#closed) return STOPPED;
      if (error instanceof ThreadsFailed) return { ok: false, failure: 'no-threads', message: error.message };
      // The thread died with the task; another one takes its place. The outcome of a
      // put is unknown, as after a timeout.
      return { ok: false, failure: 'unreachable', message: `${task.op}: ${String(error)}` };
    }
  }

  #bounded(done: Promise<ColdOutcome>, { op }: ColdTask): Promise<ColdOutcome> {
    const { runtime, timeoutMs, onOutcome } = this.#options;
    const boundMs = timeoutMs * STEPS[op] + LATE_MS;
    return new Promise((resolve) => {
      const end = (outcome: ColdOutcome): void => {
        onOutcome?.(op, outcome);
        resolve(outcome);
      };
      const cancel = runtime.setTimer(boundMs, () => {
        end({ ok: false, failure: 'unreachable', message: `${op}: no answer within ${boundMs} ms` });
      });
      // #perform() does not reject.
      void done.then((outcome) => {
        cancel();
        end(outcome);
      });
    });
  }
}

function bytesOf(task: ColdTask): number {
  if (task.op === 'put') return task.body.length;
  if (task.op === 'merge') return mergeBytes(task.slices);
  return task.op === 'get' ? task.refs.reduce((sum, { length }) => sum + length, 0) : 0;
}
