/** Waiting: for a time, for room, for a promise; and not longer than a signal allows. */

/** Delays between attempts double from the first of these to the second. */
const BACKOFF_MS = 50;
const BACKOFF_MS_MAX = 5000;

/** Waits end when the signal is aborted, with its reason. What was sent before may still be done. */
export interface WaitOptions {
  readonly signal?: AbortSignal;
}

/** The part of an AbortSignal that waiting needs. */
export interface EndSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** One for thousands of waiting calls: Node warns of more than ten at an AbortSignal. */
export class EndSource implements EndSignal {
  readonly #listeners = new Set<() => void>();
  reason: Error | undefined;

  get aborted(): boolean {
    return this.reason !== undefined;
  }

  abort(reason: Error): void {
    if (this.aborted) return;
    this.reason = reason;
    for (const listener of this.#listeners) listener();
  }

  throwIfAborted(): void {
    if (this.reason !== undefined) throw this.reason;
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.delete(listener);
  }
}

export function signalsOf(signal: AbortSignal | undefined): readonly EndSignal[] {
  return signal === undefined ? [] : [signal];
}

export function throwIfAborted(signals: readonly EndSignal[]): void {
  const ended = signals.find(({ aborted }) => aborted);
  if (ended !== undefined) throw ended.reason;
}

/** Rejects with the reason of the first signal that is aborted before the promise settles. */
export async function raced<T>(promise: Promise<T>, signals: readonly EndSignal[]): Promise<T> {
  let abort: () => void = () => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    abort = (): void => {
      const signal = signals.find((one) => one.aborted);
      if (signal !== undefined) reject(signal.reason);
    };
  });
  aborted.catch(() => undefined);
  abort();
  for (const signal of signals) signal.addEventListener('abort', abort);
  try {
    return await Promise.race([aborted, promise]);
  } finally {
    for (const signal of signals) signal.removeEventListener('abort', abort);
    promise.catch(() => undefined);
  }
}

/**
 * A generator that may be left while it waits, as `Readable.from()` does: its own return() would wait for the next value.
 * The generator gives the signal to everything that it awaits.
 */
export function endable<T>(generate: (end: EndSignal) => AsyncGenerator<T, void>): AsyncGenerator<T, void> {
  const end = new EndSource();
  const generator = generate(end);
  const step = async (call: Promise<IteratorResult<T, void>>): Promise<IteratorResult<T, void>> => {
    try {
      return await call;
    } catch (error) {
      if (error === end.reason) return { done: true, value: undefined };
      throw error;
    }
  };
  const leave = (): void => end.abort(new Error('its reader left'));
  const next = generator.next.bind(generator);
  const finish = generator.return.bind(generator);
  const fail = generator.throw.bind(generator);
  return Object.assign(generator, {
    next: async () => await step(next()),
    return: async () => {
      leave();
      return await finish();
    },
    throw: async (error: unknown) => {
      leave();
      return await fail(error);
    },
  });
}

export async function sleep(ms: number, signals: readonly EndSignal[]): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  try {
    await raced(over, signals);
  } finally {
    clearTimeout(timer);
  }
}

/** Anything between nothing and the doubled delay, so that clients that lost one node do not come back together. */
export function backoffMs(failures: number): number {
  return Math.random() * Math.min(BACKOFF_MS_MAX, BACKOFF_MS * 2 ** Math.min(failures, 10));
}

/** A little later than the node said, and not all clients at once. */
export function spreadMs(ms: number): number {
  return ms * (1 + Math.random() / 4);
}

/** So many bytes, handed out in the order in which they were asked for. What is larger than all of it waits until all is free. */
export class Room {
  readonly #most: number;
  /** Each takes its bytes when its turn has come. */
  readonly #waiting = new Set<{ readonly bytes: number; readonly enter: () => void }>();
  #taken = 0;
  /** Places whose turn has come, and whose callers go on a moment later: those who come now stay behind them. */
  #entering = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  async take(bytes: number, signals: readonly EndSignal[]): Promise<void> {
    throwIfAborted(signals);
    if (this.#waiting.size === 0 && this.#entering === 0 && this.#fits(bytes)) {
      this.#taken += bytes;
      return;
    }
    let hasEntered = false;
    let enter: () => void = () => undefined;
    const entered = new Promise<void>((resolve) => {
      enter = (): void => {
        hasEntered = true;
        resolve();
      };
    });
    const place = { bytes, enter };
    this.#waiting.add(place);
    this.#admit();
    try {
      await raced(entered, signals);
    } catch (error) {
      if (hasEntered) this.give(bytes);
      else this.#leave(place);
      throw error;
    } finally {
      if (hasEntered) this.#entering--;
    }
  }

  give(bytes: number): void {
    this.#taken -= bytes;
    this.#admit();
  }

  #leave(place: { readonly bytes: number; readonly enter: () => void }): void {
    this.#waiting.delete(place);
    this.#admit();
  }

  #admit(): void {
    for (const place of this.#waiting) {
      if (!this.#fits(place.bytes)) return;
      this.#waiting.delete(place);
      this.#taken += place.bytes;
      this.#entering++;
      place.enter();
    }
  }

  #fits(bytes: number): boolean {
    return this.#taken + bytes <= this.#most || this.#taken === 0;
  }
}
