/**
 * How fast the exports of a node go together. An idle node exports as fast as it can; beside clients each MiB costs their answers time,
 * on its way through the main thread, and by the tool when it runs on the same machine, whatever the priorities.
 */
import { EXPORT_BUSY_BYTES_PER_SECOND } from '../../base/limits.ts';

/** Requests a second from which on a node is one that clients wait for; an export itself makes two. */
const BUSY_REQUESTS = 100;
const LOOK_MS = 100;

export class Pace {
  readonly #requests: () => number;
  readonly #clockMs: () => number;
  #seen: number;
  #seenAtMs: number;
  #busy = false;
  #nextMs = 0;

  /** `requests`: that the node has taken so far; `clockMs`: monotonic. */
  constructor(requests: () => number, clockMs: () => number) {
    this.#requests = requests;
    this.#clockMs = clockMs;
    this.#seen = requests();
    this.#seenAtMs = clockMs();
  }

  /** So many bytes have left: when as many may follow, in ms from now. */
  delayMs(bytes: number): number {
    const clockMs = this.#clockMs();
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
