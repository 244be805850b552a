/** The clock by which tokens end: that of the wall, because a moment is written in them. */

export interface TokenClock {
  /** Milliseconds since 1970. */
  nowMs(): number;
  /** Calls `run` after so many milliseconds, and keeps no process alive for it; the answer takes that back. */
  after(ms: number, run: () => void): () => void;
}

export const TOKEN_CLOCK: TokenClock = {
  nowMs: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
