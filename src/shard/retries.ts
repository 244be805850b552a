/** When a snapshot for a node may be tried again: a group is not read and sent in a loop to who cannot take it. */

/** Behind the first failure: a node that restarts takes about as long. */
const FIRST_MS = 500;
/** What a node that can take it again waits for at most. */
const LONGEST_MS = 60_000;

interface Failures {
  count: number;
  notBeforeMs: number;
}

export class Retries {
  /** By group and node: as many as there are of both. */
  readonly #failures = new Map<string, Failures>();

  /** Returns for how long nothing is tried. */
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
