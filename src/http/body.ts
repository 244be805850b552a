/**
 * Collects a request body. The usual body arrives in one chunk and is used where it lies, in memory of uWebSockets.js
 * that is valid only during the callback. A body in several chunks is copied into one buffer: of the declared size, or
 * growing by doubling when it comes chunked.
 *
 * Bounds: a declared size over the limit is refused before the body is read, a chunked one as soon as it passes it; all
 * bodies together stay within the budget. Half-sent bodies and slow senders are ended by uWebSockets.js: while a body is
 * awaited it closes a connection that brings less than 160 KiB in 10 s.
 */
import { Exchange } from './exchange.ts';
import type { UwsResponse } from './uws.ts';

/** First buffer of a chunked body in bytes; uWebSockets.js reads up to 512 KiB at once, most bodies are far smaller. */
const FIRST_BYTES = 64 * 1024;
const NO_BYTES = new Uint8Array(0);

export abstract class BodyExchange extends Exchange {
  /** The last chunk has been seen, so uWebSockets.js will not call again. */
  bodyEnded = false;
  #buffer: Uint8Array = NO_BYTES;
  #length = 0;
  #declared = -1;

  readonly #data = (chunk: ArrayBuffer, last: boolean): void => {
    try {
      this.#chunk(chunk, last);
    } catch (error) {
      this.plane.logError(error, this.operation);
      this.fail('INTERNAL');
    }
  };

  /** The body is complete. `body` may lie in memory that is gone after the call. */
  protected abstract bodyReady(body: Uint8Array): void;

  /** Starts reading; call it last in the route handler. `declared` is Content-Length in bytes, -1 when unknown. */
  readBody(res: UwsResponse, declared: number): void {
    this.bodyEnded = false;
    this.#declared = declared;
    this.#length = 0;
    // A body that is never read is discarded by uWebSockets.js, and the connection closed if that takes over 10 s.
    if (declared > this.plane.bodyBytesMax) return this.fail('BODY_TOO_LARGE');
    if (declared > 0) {
      if (!this.plane.budget.take(declared)) return this.fail('INFLIGHT_FULL');
      this.heldBytes = declared;
    }
    res.onData(this.#data);
  }

  #chunk(chunk: ArrayBuffer, last: boolean): void {
    if (last) this.bodyEnded = true;
    if (this.res === undefined) return;
    const size = this.#length + chunk.byteLength;
    if (size > this.heldBytes && !this.#hold(size)) return;
    if (last && this.#length === 0) return this.bodyReady(new Uint8Array(chunk));
    if (chunk.byteLength > 0) {
      if (size > this.#buffer.length) this.#grow(size);
      this.#buffer.set(new Uint8Array(chunk), this.#length);
      this.#length = size;
    }
    if (!last) return;
    const body = this.#buffer.subarray(0, this.#length);
    this.#buffer = NO_BYTES;
    this.bodyReady(body);
  }

  /** Takes what a chunked body needs beyond what it holds already; false when it was refused. */
  #hold(size: number): boolean {
    if (size > this.plane.bodyBytesMax) {
      this.#drop();
      this.fail('BODY_TOO_LARGE');
      return false;
    }
    if (!this.plane.budget.take(size - this.heldBytes)) {
      this.#drop();
      this.fail('INFLIGHT_FULL');
      return false;
    }
    this.heldBytes = size;
    return true;
  }

  #grow(size: number): void {
    const wanted = Math.max(this.#declared, FIRST_BYTES, 2 * this.#buffer.length, size);
    const grown = new Uint8Array(Math.min(wanted, this.plane.bodyBytesMax));
    grown.set(this.#buffer.subarray(0, this.#length));
    this.#buffer = grown;
  }

  #drop(): void {
    this.#buffer = NO_BYTES;
    this.#length = 0;
  }

  protected override finished(): void {
    this.#drop();
  }
}
