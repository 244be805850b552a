/**
 * The export thread, seen from the main thread: started with the first export, ended after an idle time. It has the
 * lowest priority of the system, so an export uses only idle time: a whole core on an idle machine, almost nothing on a
 * busy one.
 */
import { Worker } from 'node:worker_threads';
import type { Runtime } from '../../base/runtime.ts';
import { threadEntry } from '../../threads/entry.ts';
import type { ExportOrder } from './group-export.ts';
import type { FromExports, ToExports } from './exporting.ts';

/** A backup takes one group after the other. */
const IDLE_MS = 10_000;

/** The receiver of the document. */
export interface ExportTaker {
  begun(commitIndex: number, digest: string | undefined): void;
  piece(piece: Uint8Array): void;
  end(): void;
  /** No more data will come. */
  failed(reason: string): void;
}

/** A running export. */
export interface ExportRun {
  /** This many bytes were sent; as many may follow. */
  left(bytes: number): void;
  close(): void;
}

/** Source of an export's rows; the simulator has its own. */
export interface ExportReaders {
  open(shard: number, order: ExportOrder, taker: ExportTaker): ExportRun;
}

export class ExportThread implements ExportReaders {
  readonly #directories: readonly string[];
  readonly #takers = new Map<number, ExportTaker>();
  #worker: Worker | undefined;
  #last = 0;
  readonly #runtime: Pick<Runtime, 'setTimer'>;
  #cancelIdle: (() => void) | undefined;

  /** `directories` are those of the shards' stores. */
  constructor(directories: readonly string[], runtime: Pick<Runtime, 'setTimer'>) {
    this.#directories = directories;
    this.#runtime = runtime;
  }

  open(shard: number, order: ExportOrder, taker: ExportTaker): ExportRun {
    const id = ++this.#last;
    this.#takers.set(id, taker);
    this.#cancelIdle?.();
    this.#worker ??= this.#start();
    this.#post({ open: id, shard, order });
    return {
      left: (bytes) => this.#post({ left: id, bytes }),
      close: () => {
        if (!this.#takers.delete(id)) return;
        this.#post({ close: id });
        this.#rest();
      },
    };
  }

  /** Ends the thread and its read transactions. */
  async stop(): Promise<void> {
    this.#cancelIdle?.();
    const worker = this.#worker;
    if (worker === undefined) return;
    this.#worker = undefined;
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    worker.postMessage({ stop: true } satisfies ToExports);
    await ended;
  }

  #post(message: ToExports): void {
    this.#worker?.postMessage(message);
  }

  #start(): Worker {
    const worker = new Worker(threadEntry('export'), { workerData: this.#directories });
    worker.on('message', (message: FromExports) => this.#take(message));
    let reason = 'it ended';
    worker.on('error', (error) => {
      reason = String(error);
    });
    worker.on('exit', () => {
      if (this.#worker === worker) this.#worker = undefined;
      else return;
      const takers = [...this.#takers.values()];
      this.#takers.clear();
      for (const taker of takers) taker.failed(`the thread of exports: ${reason}`);
    });
    return worker;
  }

  #take(message: FromExports): void {
    const taker = this.#takers.get(message.id);
    if (taker === undefined) return;
    if ('piece' in message) return taker.piece(message.piece);
    if ('begun' in message) return taker.begun(message.begun.commitIndex, message.begun.digest);
    this.#takers.delete(message.id);
    this.#rest();
    return 'failed' in message ? taker.failed(message.failed) : taker.end();
  }

  #rest(): void {
    if (this.#takers.size > 0) return;
    this.#cancelIdle?.();
    this.#cancelIdle = this.#runtime.setTimer(IDLE_MS, () => void this.stop());
  }
}
