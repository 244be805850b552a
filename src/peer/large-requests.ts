/**
 * Large requests on their way to one peer, one after the other. Their pieces are cut when they leave, from the bytes of
 * the request itself: nothing copies or sums up all of it at once.
 */
import { type Forward, encodeForwardPiece } from './codec/forward.ts';

export class LargeRequests {
  #waiting: Forward[] = [];
  /** Bytes of the first request that are sent. */
  #at = 0;
  #bytes = 0;

  /** Bytes that are not sent yet. */
  get bytes(): number {
    return this.#bytes;
  }

  get count(): number {
    return this.#waiting.length;
  }

  push(request: Forward): void {
    this.#waiting.push(request);
    this.#bytes += request.bytes.length;
  }

  /** The next piece as a frame; undefined: nothing waits. */
  piece(bytesMax: number): Uint8Array | undefined {
    const [request] = this.#waiting;
    if (request === undefined) return undefined;
    const frame = encodeForwardPiece(request, this.#at, bytesMax);
    const bytes = Math.min(bytesMax, request.bytes.length - this.#at);
    this.#at += bytes;
    this.#bytes -= bytes;
    if (this.#at < request.bytes.length) return frame;
    this.#waiting.shift();
    this.#at = 0;
    return frame;
  }

  /** Forgets all; returns what was left of each. */
  clear(): number[] {
    const left = this.#waiting.map(({ bytes }, position) => bytes.length - (position === 0 ? this.#at : 0));
    this.#waiting = [];
    this.#at = 0;
    this.#bytes = 0;
    return left;
  }
}
