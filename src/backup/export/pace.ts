/**
 * Rate of all exports of a node. An idle node exports at full speed. With clients, each MiB delays their answers,
 * because it passes the main thread, and because the tool may run on the same machine, whatever the priorities.
 */
import { EXPORT_BUSY_BYTES_PER_SECOND } from '../../base/limits.ts';
import type { Runtime } from '../../base/runtime.ts';

/** Requests per second from which a node counts as busy; an export itself makes two. */
const BUSY_REQUESTS = 100;
const LOOK_MS = 100;

export class ExportPace {
  readonly #requests: () => number;
  readonly #runtime: Pick<Runtime, 'monotonicMs'>;
  #seen: number;
  #seenAtMs: number;
  #busy = false;
  #nextMs = 0;

  /** `requests`: the total that the node has accepted. */
  constructor(requests: () => number, runtime: Pick<Runtime, 'monotonicMs'>) {
    this.#requests = requests;
    this.#runtime = runtime;
    this.#seen = requests();
    this.#seenAtMs = runtime.monotonicMs();
  }

  /** This many bytes were sent; returns in how many ms as many may follow. */
  delayMs(bytes: number): number {
    const clockMs = this.#runtime.monotonicMs();
    this.#look(clockMs);
    this.#nextMs = Math.max(this.#nextMs, clockMs);
    if (!this.#busy) return 0;
    this.#nextMs += (bytes * 1000) / EXPORT_BUSY_BYTES_PER_SECOND;
    return this.#nextMs - clockMs;
  }

  #look(clockMs: number): void {
    const elapsedMs = clockMs - this.#seenAtMs;
    if (elapsedMs < LOOK_MS) return;
    const requests = this.#requests();
    this.#busy = (requests - this.#seen) * 1000 >= BUSY_REQUESTS * elapsedMs;
    this.#seen = requests;
    this.#seenAtMs = clockMs;
  }
}
