/** Clocks, timers and randomness: the process's own, or the simulator's. Pure folders get times as arguments. */
export interface Runtime {
  /** Wall clock in milliseconds: goes into commands and decides what is expired. It may be set back. */
  nowMs(): number;
  /** Monotonic clock in milliseconds: measures all waits and periods. */
  monotonicMs(): number;
  /** 0 <= result < 1, for jitter. */
  random(): number;
  /** Unpredictable, for nonces and names. */
  randomBytes(sizeBytes: number): Uint8Array;
  /** Calls `run` once; the result cancels it. A timer does not keep the process alive. */
  setTimer(delayMs: number, run: () => void): () => void;
}
