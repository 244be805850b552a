/**
 * Slow object store operations in separate threads. Everything is bounded: tasks, the bytes they hold, a caller's wait,
 * and the time that a stopping process allows for running tasks.
 *
 * A task is never aborted through piscina, because that would end its thread with all other tasks in it. The store
 * bounds each operation; a task that hangs anyway (a network file system) is abandoned by its caller but keeps its slot
 * here.
 */
import { availableParallelism } from 'node:os';
import type { Runtime } from '../../base/runtime.ts';
import type { Backend } from '../store/backend.ts';
import { mergeBytes } from '../store/merge-objects.ts';
import { threadEntry } from '../../threads/entry.ts';
import { type Closed, ThreadPool, ThreadsFailed } from '../../threads/thread-pool.ts';
import type { ColdOutcome, ColdTask, Failed } from './pool-tasks.ts';

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

const BUSY: Failed = { ok: false, failure: 'busy', message: 'too much work for the cold store is waiting' };
const STOPPED: Failed = { ok: false, failure: 'stopped', message: 'the server is stopping' };

export interface PoolOptions {
  readonly backend: Backend;
  /** Bound of one operation. */
  readonly timeoutMs: number;
  readonly runtime: Runtime;
  readonly onError: (error: unknown) => void;
  /** Outcome of each task, before its caller gets it. */
  readonly onOutcome?: (op: ColdTask['op'], outcome: ColdOutcome<ColdTask['op']>) => void;
}

export class ColdPool {
  readonly #threads: ThreadPool<ColdTask, ColdOutcome<ColdTask['op']>>;
  readonly #timeoutMs: number;
  readonly #runtime: Runtime;
  readonly #onOutcome: PoolOptions['onOutcome'];
  #closed = false;
  #tasks = 0;
  #bytes = 0;
  #idle: (() => void) | undefined;

  constructor(options: PoolOptions) {
    this.#timeoutMs = options.timeoutMs;
    this.#runtime = options.runtime;
    this.#onOutcome = options.onOutcome;
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

  /** Never rejects. The body of a put is detached from the caller's memory. */
  run<Op extends ColdTask['op']>(task: Extract<ColdTask, { op: Op }>): Promise<ColdOutcome<Op>> {
    if (this.#closed) return Promise.resolve(STOPPED);
    const bytes = bytesOf(task);
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
    return this.#bounded(done, task) as Promise<ColdOutcome<Op>>;
  }

  /** Accepts no more tasks, allows running ones `waitMs`, and ends the threads. */
  async close(waitMs: number): Promise<Closed> {
    this.#closed = true;
    if (this.#tasks > 0) {
      let cancel: (() => void) | undefined;
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
        cancel = this.#runtime.setTimer(waitMs, resolve);
      });
      cancel?.();
    }
    return await this.#threads.close();
  }

  async #perform(task: ColdTask): Promise<ColdOutcome<ColdTask['op']>> {
    try {
      return await this.#threads.run(task, task.op === 'put' ? [task.body.buffer] : []);
    } catch (error) {
      if (this.#closed) return STOPPED;
      if (error instanceof ThreadsFailed) return { ok: false, failure: 'no-threads', message: error.message };
      // The thread died with the task; another one takes its place. The outcome of a put is unknown, as after a timeout.
      return { ok: false, failure: 'unreachable', message: `${task.op}: ${String(error)}` };
    }
  }

  #bounded(done: Promise<ColdOutcome<ColdTask['op']>>, task: ColdTask): Promise<ColdOutcome<ColdTask['op']>> {
    const boundMs = this.#timeoutMs * stepsOf(task) + LATE_MS;
    return new Promise((resolve) => {
      const end = (outcome: ColdOutcome<ColdTask['op']>): void => {
        this.#onOutcome?.(task.op, outcome);
        resolve(outcome);
      };
      const cancel = this.#runtime.setTimer(boundMs, () => {
        end({ ok: false, failure: 'unreachable', message: `${task.op}: no answer within ${boundMs} ms` });
      });
      // #perform() does not reject.
      void done.then((outcome) => {
        cancel();
        end(outcome);
      });
    });
  }
}

/** Operations of one probe, each with its own bound. */
const PROBE_STEPS = 6;
/** Of a merge: hundreds of small reads, some concurrent. No client waits for it. */
const MERGE_STEPS = 6;

function stepsOf({ op }: ColdTask): number {
  if (op === 'probe') return PROBE_STEPS;
  return op === 'merge' ? MERGE_STEPS : 1;
}

function bytesOf(task: ColdTask): number {
  if (task.op === 'put') return task.body.length;
  if (task.op === 'merge') return mergeBytes(task.slices);
  return task.op === 'get' ? task.lengths.reduce((sum, length) => sum + length, 0) : 0;
}
