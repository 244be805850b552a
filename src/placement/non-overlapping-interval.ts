import type { Runtime } from '../base/runtime.ts';

export interface IntervalOptions {
  readonly runtime: Pick<Runtime, 'setTimer'>;
  onError(error: unknown): void;
}

/** Periodic rounds of which one runs at a time: none begins while the previous one still waits for answers. */
export abstract class NonOverlappingInterval {
  readonly #everyMs: number;
  readonly #options: IntervalOptions;
  #running = false;
  #cancel: (() => void) | undefined;

  constructor(everyMs: number, options: IntervalOptions) {
    this.#everyMs = everyMs;
    this.#options = options;
  }

  protected abstract round(): Promise<void>;

  start(): void {
    this.#cancel ??= this.#options.runtime.setTimer(this.#everyMs, () => {
      this.#cancel = undefined;
      this.start();
      void this.tick();
    });
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  /** Runs a round now, or nothing during a running one. Never rejects. */
  async tick(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    try {
      await this.round();
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.#running = false;
    }
  }
}
