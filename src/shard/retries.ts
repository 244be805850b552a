/** When a snapshot for a node may be retried, so that no group is sent in a loop to a node that cannot take it. */

/** Delay after the first failure, about as long as a node restart. */
const FIRST_MS = 500;
/** Maximum delay for a node that can accept it again. */
const LONGEST_MS = 60_000;

interface Failures {
  count: number;
  notBeforeMs: number;
}

export class Retries {
  /** By group and node; bounded by their product. */
  readonly #failures = new Map<string, Failures>();

  /** Returns how long to wait before the next attempt. */
  failed(key: string, clockMs: number): number {
    const before = this.#failures.get(key)?.count ?? 0;
    const waitMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(before, 10));
    this.#failures.set(key, { count: before + 1, notBeforeMs: clockMs + waitMs });
    return waitMs;
  }

  succeeded(key: string): void {
    this.#failures.delete(key);
  }

  mayTry(key: string, clockMs: number): boolean {
    return clockMs >= (this.#failures.get(key)?.notBeforeMs ?? 0);
  }
}
