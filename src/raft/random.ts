/** Small seeded generator (mulberry32) for election timeouts, the core's only source of randomness. */
export class Random {
  #state: number;

  constructor(seed: number) {
    // Seeds may exceed 32 bits; both halves contribute.
    this.#state = (seed ^ Math.floor(seed / 0x1_0000_0000)) >>> 0;
  }

  /** Integer in [0, bound). */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  }
}
