/**
 * Clocks, timers and chance: what a process has of them, and what the simulator gives instead. Pure rooms get moments as
 * arguments and never see this.
 */
export interface Runtime {
  /** Wall clock in milliseconds: goes into commands and decides what is expired. It may be set back. */
  nowMs(): number;
  /** A clock in milliseconds that never steps: all waits and periods are measured with it. */
  monotonicMs(): number;
  /** 0 <= result < 1, for jitter. */
  random(): number;
  /** Unpredictable, for nonces and names. */
  randomBytes(sizeBytes: number): Uint8Array;
  /** Calls `run` once; the result cancels it. A timer does not keep the process alive. */
  setTimer(delayMs: number, run: () => void): () => void;
}
