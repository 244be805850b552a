/** A periodic task of which one round runs at a time: none begins while the previous one still waits for answers. */
export class NonOverlappingInterval {
  readonly #everyMs: number;
  readonly #round: () => Promise<void>;
  readonly #onError: (error: unknown) => void;
  #running = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(everyMs: number, round: () => Promise<void>, onError: (error: unknown) => void) {
    this.#everyMs = everyMs;
    this.#round = round;
    this.#onError = onError;
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.run(), this.#everyMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Runs a round now, or nothing during a running one. Never rejects. */
  async run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    try {
      await this.#round();
    } catch (error) {
      this.#onError(error);
    } finally {
      this.#running = false;
    }
  }
}
