/** How many of something a second may have, saved up for one second at most. */
const SECOND_MS = 1000;

export class Allowance {
  readonly #perSecond: number;
  readonly #clockMs: () => number;
  #left: number;
  #atMs: number;

  constructor(perSecond: number, clockMs: () => number) {
    this.#perSecond = perSecond;
    this.#clockMs = clockMs;
    this.#left = perSecond;
    this.#atMs = clockMs();
  }

  /** False: there is none left now. */
  take(): boolean {
    const clockMs = this.#clockMs();
    const earned = ((clockMs - this.#atMs) * this.#perSecond) / SECOND_MS;
    this.#left = Math.min(this.#perSecond, this.#left + earned);
    this.#atMs = clockMs;
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }
}
