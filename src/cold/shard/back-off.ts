import type { Random } from '../../raft/random.ts';

const FIRST_MS = 200;
/** Maximum delay before a recovered store is used again. */
const LONGEST_MS = 5000;

/** Retry delays after failures: doubling, with jitter so that groups do not retry all at once. */
export class BackOff {
  readonly #random: Random;
  #failures = 0;
  #notBeforeMs = -Infinity;

  constructor(random: Random) {
    this.#random = random;
  }

  get failures(): number {
    return this.#failures;
  }

  get notBeforeMs(): number {
    return this.#notBeforeMs;
  }

  failed(clockMs: number): void {
    const wait = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(10, this.#failures++));
    this.#notBeforeMs = clockMs + wait / 2 + this.#random.below(Math.ceil(wait / 2));
  }

  succeeded(): void {
    this.#failures = 0;
    this.#notBeforeMs = -Infinity;
  }

  /** The store answered another request, so there is no reason to wait. */
  hope(): void {
    this.#notBeforeMs = -Infinity;
  }
}
