/** Syncs of the log that end later, as those of the thread do; or at once, when they are waited for. */
import type { SegmentFile } from '../../src/store/log-files.ts';
import type { LogSyncer } from '../../src/store/log-sync.ts';

export interface SyncerParts {
  /** Undefined: the next sync is waited for, as on a fast disk. */
  readonly durationMs: () => number | undefined;
  /** Runs `work` in the process later, if it lives. */
  readonly later: (delayMs: number, work: () => void) => void;
  /** The process waits. */
  readonly busy: (durationMs: number) => void;
  /** The shard is to look. */
  readonly wake: () => void;
}

interface Running {
  readonly file: SegmentFile;
  readonly durationMs: number;
}

export class SimSyncer implements LogSyncer {
  readonly #parts: SyncerParts;
  #running: Running | undefined;

  constructor(parts: SyncerParts) {
    this.#parts = parts;
  }

  sync(file: SegmentFile, how: 'wait' | 'behind'): boolean {
    const durationMs = how === 'behind' ? this.#parts.durationMs() : undefined;
    if (durationMs === undefined) {
      file.sync();
      return true;
    }
    const running = { file, durationMs };
    this.#running = running;
    this.#parts.later(durationMs, () => {
      if (this.#running !== running) return;
      this.#end(running);
      this.#parts.wake();
    });
    return false;
  }

  ended(how: 'look' | 'wait'): boolean {
    const running = this.#running;
    if (running !== undefined && how === 'wait') {
      this.#parts.busy(running.durationMs);
      this.#end(running);
    }
    return this.#running === undefined;
  }

  async close(): Promise<void> {}

  #end({ file }: Running): void {
    this.#running = undefined;
    file.sync();
  }
}
