/** How many bytes of bodies senders may have on their way, and how long a body may take. */
/** Bytes of request bodies that this process holds or has given to a shard without an answer yet, of both planes. */
export class BodyBudget {
  readonly limitBytes: number;
  usedBytes = 0;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
  }

  take(bytes: number): boolean {
    if (!this.hasRoom(bytes)) return false;
    this.usedBytes += bytes;
    return true;
  }

  /** Whether so many bytes would fit now. */
  hasRoom(bytes: number): boolean {
    return this.usedBytes + bytes <= this.limitBytes;
  }

  give(bytes: number): void {
    this.usedBytes -= bytes;
  }
}

/** 32 MiB over 1 Mbit/s take four and a half minutes. */
const BODY_MS_MAX = 300_000;
/** How often slow bodies are looked for; a body may take so much longer. */
const SWEEP_MS = 5000;

interface SlowBody {
  /** Ends the request and its connection. */
  cutOff(): void;
}

/**
 * Bodies that are on their way, and how long for. Half a body holds memory and a place in the budget; a sender that
 * drips just fast enough for the library (160 KiB in 10 s) would hold 32 MiB for half an hour.
 */
export class SlowBodies {
  readonly #clockMs: () => number;
  /** When the first piece came; the longest ago is the first. */
  readonly #since = new Map<SlowBody, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(clockMs: () => number) {
    this.#clockMs = clockMs;
  }

  get size(): number {
    return this.#since.size;
  }

  /** Its first piece came, and it was not all. */
  add(body: SlowBody): void {
    this.#since.set(body, this.#clockMs());
    this.#timer ??= setInterval(() => this.sweep(), SWEEP_MS).unref();
  }

  /** Complete, refused or gone. */
  delete(body: SlowBody): void {
    // Most of the time there is none, and every request comes by.
    if (this.#since.size === 0 || !this.#since.delete(body) || this.#since.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  sweep(): void {
    const latestMs = this.#clockMs() - BODY_MS_MAX;
    for (const [body, sinceMs] of this.#since) {
      if (sinceMs > latestMs) return;
      this.delete(body);
      body.cutOff();
    }
  }
}
