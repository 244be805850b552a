// Closed-loop writers of a stream each: an append, its answer, the next append. Unlike wrk they may write to several
// nodes, and they endure what large bodies meet: a refusal, or a connection that the server ends.

import { setTimeout as sleep } from 'node:timers/promises';
import { summarize, type LoadResult } from '../stats.ts';
import { Exchange, httpFraming, httpRequest, statusOf } from './exchange.ts';

const CONTENT_TYPE = 'application/octet-stream';
/** After a refusal: far less than Retry-After says, so that a server that refuses gets no rest from it. */
const PAUSE_MS = 100;

export interface WriterPlace {
  readonly port: number;
  readonly path: string;
}

export interface WritersOptions {
  readonly bodyBytes: number;
  /** Appends of all writers together, after which they end by themselves. */
  readonly countMax?: number;
  /** An append that was sent at `sentMs` has been acknowledged just now. */
  readonly onAcknowledged?: (writer: number, sentMs: number) => void;
}

export class Writers {
  /** Resolves when all have ended by themselves, or after stop(). */
  readonly ended: Promise<unknown>;
  readonly #options: WritersOptions;
  readonly #startMs = performance.now();
  readonly #samples: number[] = [];
  readonly #failures = new Map<string, number>();
  #sent = 0;
  #failed = 0;
  #isOver = false;
  #lastMs = this.#startMs;

  constructor(places: readonly WriterPlace[], options: WritersOptions) {
    this.#options = options;
    const body = Buffer.alloc(options.bodyBytes, 'large or small ');
    this.ended = Promise.all(places.map(({ port, path }, writer) => this.#write(writer, port, path, body)));
  }

  /** Lets every writer finish its append. Rates count until the last answer. */
  async stop(): Promise<LoadResult> {
    this.#isOver = true;
    await this.ended;
    const count = this.#samples.length;
    const seconds = (this.#lastMs - this.#startMs) / 1000;
    return {
      ratePerSecond: count / seconds,
      bytesPerSecond: (count * this.#options.bodyBytes) / seconds,
      ...summarize(Float64Array.from(this.#samples)),
      requests: count + this.#failed,
      failed: this.#failed,
      failures: [...this.#failures].map(([why, times]) => `${times} × ${why}`).join(', '),
    };
  }

  async #write(writer: number, port: number, path: string, body: Buffer): Promise<void> {
    const { countMax = Infinity, onAcknowledged } = this.#options;
    const message = httpRequest({ method: 'POST', path, contentType: CONTENT_TYPE, body });
    let exchange: Exchange | undefined;
    while (!this.#isOver && this.#sent < countMax) {
      this.#sent++;
      const sentMs = performance.now();
      let failure: string | undefined;
      try {
        exchange ??= await Exchange.open(port, httpFraming);
        const status = statusOf(await exchange.send(message));
        if (status >= 300) failure = String(status);
      } catch (error) {
        exchange?.close();
        exchange = undefined;
        failure = String(error);
      }
      this.#lastMs = performance.now();
      if (failure === undefined) {
        this.#samples.push(this.#lastMs - sentMs);
        onAcknowledged?.(writer, sentMs);
        continue;
      }
      this.#failed++;
      this.#failures.set(failure, (this.#failures.get(failure) ?? 0) + 1);
      await sleep(PAUSE_MS);
    }
    exchange?.close();
  }
}
