/** The clocks, timers and randomness of this process. */
import { randomBytes } from 'node:crypto';
import type { Runtime } from '../base/runtime.ts';

export const PROCESS_RUNTIME: Runtime = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  random: () => Math.random(),
  randomBytes: (sizeBytes) => randomBytes(sizeBytes),
  setTimer(delayMs, run) {
    const timer = setTimeout(run, delayMs).unref();
    return () => clearTimeout(timer);
  },
};
