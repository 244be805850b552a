/** An upload that is held back, or rests. */

/** Well below the 10 s, less the granularity of 4 s, in which uWebSockets.js closes what brings nothing (server.ts). */
const RENEWAL_MS = 3000;
/** Five minutes: more than the two that a tool gives the store from which it reads. */
const RENEWALS_MAX = 100;

/** A request whose body comes. */
interface Incoming {
  pause(): unknown;
  resume(): unknown;
}

/**
 * Holds an upload back, and lets its client rest. uWebSockets.js (HttpContext.h, HttpResponse.h) gives a client 10 s to
 * bring 160 KiB. `pause` ends these 10 s and `resume` starts them; but a socket that brings full buffers is read on
 * although it was paused, and each 160 KiB start them too. A client that may not send would lose its connection, so a
 * handler that gets bytes while it waits pauses again. A client that waits for its own source would lose it too, so the
 * 10 s start again and again until nothing came for five minutes. Never touches a response that is over.
 */
export class UploadPace {
  readonly #incoming: Incoming;
  readonly #response: { readonly isOver: boolean };
  readonly #renewal = setInterval(() => this.#renew(), RENEWAL_MS).unref();
  #renewals = 0;
  #paused = false;

  constructor(incoming: Incoming, response: { readonly isOver: boolean }) {
    this.#incoming = incoming;
    this.#response = response;
  }

  pause(): void {
    if (this.#paused || this.#response.isOver) return;
    this.#paused = true;
    this.#incoming.pause();
  }

  /** Bytes came, maybe although they were to wait. */
  came(): void {
    this.#renewals = 0;
    if (this.#paused && !this.#response.isOver) this.#incoming.pause();
  }

  resume(): void {
    if (!this.#paused || this.#response.isOver) return;
    this.#paused = false;
    this.#renewals = 0;
    this.#incoming.resume();
  }

  answer(write: () => void): void {
    this.resume();
    write();
  }

  /** Nothing comes any more: the upload is whole, answered or given up. */
  over(): void {
    clearInterval(this.#renewal);
  }

  #renew(): void {
    if (this.#paused || this.#renewals++ >= RENEWALS_MAX) return;
    this.#incoming.pause();
    this.#incoming.resume();
  }
}
