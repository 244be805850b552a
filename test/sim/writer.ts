/**
 * Writes checkpoints in a simulation: a commit that comes later, as the thread's does;
 * or at once, when it is waited for.
 */
import { type Pending, applyChanges } from '../../src/base/overlay.ts';
import type { Tx } from '../../src/base/tx.ts';
import type { CheckpointWriter, WriteOutcome } from '../../src/store/checkpoint-writer.ts';
import { caughtCode, caughtMessage } from '../../src/base/caught.ts';

export interface WriterParts {
  readonly commit: (write: () => void) => void;
  readonly tx: Tx;
  readonly durationMs: () => number;
  /** Runs `work` in the process later, if it lives. */
  readonly later: (delayMs: number, work: () => void) => void;
  /** The process waits. */
  readonly busy: (durationMs: number) => void;
  /** Rows are on the platter. */
  readonly written: () => void;
}

interface Running {
  readonly changes: readonly Pending[];
  readonly durationMs: number;
}

export class SimWriter implements CheckpointWriter {
  readonly #parts: WriterParts;
  #running: Running | undefined;
  #outcome: WriteOutcome = 'written';

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  start(changes: Iterable<Pending>): void {
    const copies = [...changes].map(({ key, value }) => ({ key: key.slice(), value: value?.slice() }));
    const running = { changes: copies, durationMs: this.#parts.durationMs() };
    this.#running = running;
    this.#parts.later(running.durationMs, () => {
      if (this.#running === running) this.#run(running);
    });
  }

  outcome(): WriteOutcome | undefined {
    return this.#running === undefined ? this.#outcome : undefined;
  }

  wait(): WriteOutcome {
    const running = this.#running;
    if (running !== undefined) {
      this.#parts.busy(running.durationMs);
      this.#run(running);
    }
    return this.#outcome;
  }

  async close(): Promise<void> {}

  #run({ changes }: Running): void {
    const { commit, tx, written } = this.#parts;
    this.#running = undefined;
    try {
      commit(() => applyChanges(tx, changes));
    } catch (error) {
      // Errors lose their class on the way between threads; what ends the process is none.
      if (caughtCode(error) === '') throw error;
      this.#outcome = { failed: { code: caughtCode(error), message: caughtMessage(error) } };
      return;
    }
    this.#outcome = 'written';
    written();
  }
}
