/**
 * Holds an upload back. Of uWebSockets.js (HttpContext.h, HttpResponse.h): `pause` ends the 10 s in which a client has to send something,
 * `resume` starts them; but a socket that brings full buffers is read on although it was paused, and each 160 KiB start the 10 s too. They
 * would end the connection of a client that may not send, so whoever gets bytes while it waits pauses anew.
 */
import type { Gathering } from './gather.ts';
import type { UwsResponse } from './uws.ts';

/** Never touches a response that is over. */
export class Flow {
  readonly #res: Pick<UwsResponse, 'pause' | 'resume'>;
  readonly #gathering: Pick<Gathering, 'isOver'>;
  #paused = false;

  constructor(res: Pick<UwsResponse, 'pause' | 'resume'>, gathering: Pick<Gathering, 'isOver'>) {
    this.#res = res;
    this.#gathering = gathering;
  }

  pause(): void {
    if (this.#paused || this.#gathering.isOver) return;
    this.#paused = true;
    this.#res.pause();
  }

  /** Bytes came, maybe although they were to wait. */
  came(): void {
    if (this.#paused && !this.#gathering.isOver) this.#res.pause();
  }

  resume(): void {
    if (!this.#paused || this.#gathering.isOver) return;
    this.#paused = false;
    this.#res.resume();
  }

  answer(write: () => void): void {
    this.resume();
    write();
  }
}
