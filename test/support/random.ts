// Seeded randomness for tests. A test prints its seed; SEED=<number> in the environment repeats its decisions (not the
// timing of the processes it talks to).

export interface Random {
  readonly seed: number;
  /** 0 <= result < 1. */
  next(): number;
  /** Whole number, both ends included. */
  int(low: number, high: number): number;
  chance(probability: number): boolean;
  pick<T>(items: readonly T[]): T;
  bytes(length: number): Buffer;
}

export function seedFromEnvironment(): number {
  const given = process.env['SEED'];
  return given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
}

/** Mulberry32: 32 bits of state are plenty for choosing requests. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const int = (low: number, high: number): number => low + Math.floor(next() * (high - low + 1));
  return {
    seed,
    next,
    int,
    chance: (probability) => next() < probability,
    pick: <T>(items: readonly T[]): T => items[int(0, items.length - 1)] as T,
    bytes: (length) => Buffer.from(Uint8Array.from({ length }, () => int(0, 255))),
  };
}
