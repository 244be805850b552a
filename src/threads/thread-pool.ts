/**
 * A piscina pool whose tasks end even when its threads do not start. Piscina alone keeps tasks in its queue when the
 * last thread fails before it is ready, and replaces one that dies at once without a pause. Here a pool that has lost
 * its threads is given up with a reason, and a later task opens another one: at once when this one has worked,
 * otherwise after a pause.
 */
import { createRequire } from 'node:module';
import type * as PiscinaPackage from 'piscina';
import type { Runtime } from '../base/runtime.ts';

const require = createRequire(import.meta.url);

/** Tasks of this time get the reason of the failure: each thread costs some 50 ms of a core. */
const PAUSE_MS = 1000;
/**
 * For threads to end, on a busy machine. One that is in a call of the system, as to a network
 * file system that hangs, ends when that call does.
 */
const END_MS = 10_000;

export interface ThreadPoolOptions {
  /** In messages and logs. */
  readonly title: string;
  readonly entry: URL;
  /** The function that the entry exports for tasks. */
  readonly task: string;
  readonly workerData?: unknown;
  readonly threadsMax: number;
  readonly tasksPerThread: number;
  readonly queueMax: number;
  /** After it a thread without tasks ends. */
  readonly idleMs: number;
  readonly runtime: Pick<Runtime, 'monotonicMs' | 'setTimer'>;
  /** A thread failed that had no task to fail. */
  readonly onError: (error: unknown) => void;
}

/** How threads that were told to end did so. `hanging`: process.exit() would wait for them, perhaps without end. */
export type Closed = 'ended' | 'hanging';

/** The threads do not start, or have ended; the message says why. */
export class ThreadsFailed extends Error {
  override readonly name = 'ThreadsFailed';
}

interface Opened<Task, Result> {
  readonly piscina: PiscinaPackage.Piscina<Task, Result>;
  /** A task was done there. */
  hasWorked: boolean;
  /** Why the last thread failed. */
  reason: string | undefined;
  /** It is given up; tasks that waited there get this. */
  failure: ThreadsFailed | undefined;
}

export class ThreadPool<Task, Result> {
  readonly #options: ThreadPoolOptions;
  #opened: Opened<Task, Result> | undefined;
  #failure: ThreadsFailed | undefined;
  #pausedUntilMs = -Infinity;

  constructor(options: ThreadPoolOptions) {
    this.#options = options;
  }

  /** Rejects with what the task throws, with the error that ended its thread, or with ThreadsFailed. */
  async run(task: Task, transferList: readonly ArrayBuffer[] = []): Promise<Result> {
    const opened = (this.#opened ??= this.#open());
    try {
      const result = await opened.piscina.run(task, { transferList: [...transferList] });
      opened.hasWorked = true;
      return result;
    } catch (error) {
      throw opened.failure ?? error;
    }
  }

  /** Ends the threads and rejects their tasks; call run() no more. Waits ten seconds at most. */
  async close(): Promise<Closed> {
    const opened = this.#opened;
    this.#opened = undefined;
    if (opened === undefined) return 'ended';
    let cancel: (() => void) | undefined;
    const late = new Promise<Closed>((resolve) => {
      cancel = this.#options.runtime.setTimer(END_MS, () => resolve('hanging'));
    });
    const closed = await Promise.race([opened.piscina.destroy().then((): Closed => 'ended'), late]);
    cancel?.();
    return closed;
  }

  #open(): Opened<Task, Result> {
    const { entry, task, workerData, threadsMax, tasksPerThread, queueMax, idleMs, runtime } = this.#options;
    if (this.#failure !== undefined && runtime.monotonicMs() < this.#pausedUntilMs) throw this.#failure;
    // Loaded with the first task, because most nodes have none.
    const { Piscina } = require('piscina') as typeof PiscinaPackage;
    const piscina = new Piscina<Task, Result>({
      filename: entry.href,
      name: task,
      workerData,
      // Threads start with tasks. Piscina would replace those of a minimum again and again.
      minThreads: 0,
      maxThreads: threadsMax,
      concurrentTasksPerWorker: tasksPerThread,
      maxQueue: queueMax,
      idleTimeout: idleMs,
      // Waiting with Atomics would block the sockets of idle connections.
      atomics: 'disabled',
      recordTiming: false,
    });
    const opened: Opened<Task, Result> = { piscina, hasWorked: false, reason: undefined, failure: undefined };
    piscina.on('error', (error) => {
      opened.reason = String(error);
      this.#options.onError(error);
    });
    // Later, so that running tasks get the error of their thread.
    piscina.on('workerDestroy', () => setImmediate(() => this.#look(opened)));
    return opened;
  }

  /** A thread has ended. */
  #look(opened: Opened<Task, Result>): void {
    if (this.#opened !== opened || opened.piscina.threads.length > 0) return;
    this.#opened = undefined;
    const { title, runtime, onError } = this.#options;
    const how = opened.hasWorked ? 'have ended' : 'do not start';
    opened.failure = new ThreadsFailed(`${title} ${how}: ${opened.reason ?? 'a thread ended without an error'}`);
    if (!opened.hasWorked) {
      this.#failure = opened.failure;
      this.#pausedUntilMs = runtime.monotonicMs() + PAUSE_MS;
      if (opened.reason === undefined) onError(opened.failure);
    }
    void opened.piscina.destroy();
  }
}
