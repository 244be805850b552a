/** Limits copying for a node's forks: bytes of forks in the making, and bytes per second of all together. */
import { FORK_BYTES_IN_MAKING_MAX, FORK_BYTES_PER_SECOND } from '../../base/limits.ts';
import type { RetryClock } from '../../gateway/retry.ts';

/** Shorter waits are skipped: timers are no more precise. */
const WAIT_MS_MIN = 2;

export class ForkPacer {
  readonly #runtime: RetryClock;
  #bytes = 0;
  #nextMs = 0;

  constructor(runtime: RetryClock) {
    this.#runtime = runtime;
  }

  /** Bytes that forks under construction inherit. */
  get bytes(): number {
    return this.#bytes;
  }

  /** False: there are too many already. A fork larger than the bound is created alone. */
  begin(bytes: number): boolean {
    if (bytes > 0 && this.#bytes > 0 && this.#bytes + bytes > FORK_BYTES_IN_MAKING_MAX) return false;
    this.#bytes += bytes;
    return true;
  }

  end(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** This many bytes were copied: `run` continues when it is their turn. */
  pass(bytes: number, run: () => void): void {
    const clockMs = this.#runtime.monotonicMs();
    this.#nextMs = Math.max(this.#nextMs, clockMs) + (1000 * bytes) / FORK_BYTES_PER_SECOND;
    const waitMs = this.#nextMs - clockMs;
    if (waitMs < WAIT_MS_MIN) run();
    else this.#runtime.setTimer(waitMs, run);
  }
}
