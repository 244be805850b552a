/** Clock, timers and chance of the links; tests bring their own. */
import { randomBytes } from 'node:crypto';

export interface Edge {
  /** Milliseconds from a clock that never goes back. */
  clockMs(): number;
  /** 0 <= result < 1, for jitter. */
  random(): number;
  /** Unpredictable, for nonces. */
  nonce(sizeBytes: number): Uint8Array;
  /** Calls `run` once; the result cancels it. */
  after(delayMs: number, run: () => void): () => void;
}

export const REAL_EDGE: Edge = {
  clockMs: () => performance.now(),
  random: () => Math.random(),
  nonce: (sizeBytes) => randomBytes(sizeBytes),
  after(delayMs, run) {
    const timer = setTimeout(run, delayMs);
    return () => clearTimeout(timer);
  },
};
