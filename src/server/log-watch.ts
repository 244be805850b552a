/** Tells when a write or sync of a shard's log hangs: its thread waits in the system, and can say so only later. */
import type { Runtime } from '../base/runtime.ts';
import type { Logger } from '../logging/logger.ts';

const LOOK_MS = 1000;
/** Duration from which on the operator hears of it, and again whenever it has doubled. */
const HANGS_MS = 5000;

/** @internal */
export const HANGS = 'the disk hangs: a write to the log has not returned, and until then the shard does nothing';
/** @internal */
export const RETURNED = 'the write to the log that hung has returned';

export interface WatchedLog {
  readonly path: string;
  /** Odd while a write is under way. */
  readonly writes: Int32Array;
}

export function watchLogs(logs: readonly WatchedLog[], runtime: Runtime, log: Logger): void {
  const watched = logs.map(({ path, writes }, shard) => ({ shard, path, writes, seen: 0, sinceMs: 0, toldMs: 0 }));
  const look = (): void => {
    const clockMs = runtime.monotonicMs();
    for (const one of watched) {
      const writes = Atomics.load(one.writes, 0);
      const tell = (level: 'info' | 'warn', sentence: string): void =>
        log[level]({ shard: one.shard, path: one.path, seconds: Math.round((clockMs - one.sinceMs) / 1000) }, sentence);
      if (writes !== one.seen || writes % 2 === 0) {
        if (one.toldMs > 0) tell('info', RETURNED);
        Object.assign(one, { seen: writes, sinceMs: clockMs, toldMs: 0 });
      } else if (clockMs - one.sinceMs >= Math.max(HANGS_MS, 2 * one.toldMs)) {
        one.toldMs = clockMs - one.sinceMs;
        tell('warn', HANGS);
      }
    }
    runtime.setTimer(LOOK_MS, look);
  };
  look();
}
