/** The clocks, timers and randomness of a process, of a thread, and of one node. */
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

/** A runtime whose timers end with the node: nothing runs any more once it is closed. */
export interface NodeRuntime extends Runtime {
  close(): void;
}

export function openRuntime(): NodeRuntime {
  const timers = new Set<() => void>();
  let isClosed = false;
  return {
    ...PROCESS_RUNTIME,
    setTimer(delayMs, run) {
      if (isClosed) return () => undefined;
      const clear = PROCESS_RUNTIME.setTimer(delayMs, () => {
        timers.delete(cancel);
        run();
      });
      const cancel = (): void => {
        timers.delete(cancel);
        clear();
      };
      timers.add(cancel);
      return cancel;
    },
    close() {
      isClosed = true;
      for (const cancel of timers) cancel();
    },
  };
}
