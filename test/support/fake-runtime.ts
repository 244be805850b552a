// Clocks and timers that stand still until a test moves them.
import type { Runtime } from '../../src/base/runtime.ts';

interface Timer {
  readonly atMs: number;
  readonly run: () => void;
}

export class FakeRuntime implements Runtime {
  /** A test may set either clock by itself; timers follow the monotonic one. */
  wallMs = 0;
  clockMs = 0;
  readonly #timers = new Set<Timer>();
  #drawn = 0;

  nowMs(): number {
    return this.wallMs;
  }

  monotonicMs(): number {
    return this.clockMs;
  }

  random(): number {
    return 0.5;
  }

  /** Different each time. */
  randomBytes(sizeBytes: number): Uint8Array {
    return new Uint8Array(sizeBytes).fill(++this.#drawn);
  }

  setTimer(delayMs: number, run: () => void): () => void {
    const timer = { atMs: this.clockMs + delayMs, run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** Both clocks move; what is due stays due until `pass`. */
  skip(ms: number): void {
    this.wallMs += ms;
    this.clockMs += ms;
  }

  /** Lets time pass, timer by timer, with everything that follows from each by promises. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.clockMs + ms;
    for (;;) {
      for (let i = 0; i < 50; i++) await Promise.resolve();
      const [next] = [...this.#timers].sort((a, b) => a.atMs - b.atMs);
      if (next === undefined || next.atMs > untilMs) break;
      this.#timers.delete(next);
      this.skip(Math.max(0, next.atMs - this.clockMs));
      next.run();
    }
    this.skip(untilMs - this.clockMs);
  }
}
