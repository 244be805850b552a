/**
 * A bound on bytes that drain by themselves, and its turnstile: while there is no room for a large body, smaller ones would take
 * every byte that becomes free, for ever. So who is refused with a large body reserves: smaller ones are refused too until it has
 * come again and passed. A client that does not come again holds the others up for a moment only, and as long as a reservation
 * lasted there is no other one behind it. Pure; the clock is one that never steps.
 */

/** A body of this size is large, or one of this part of the bound. Smaller ones meet about the same odds. */
const LARGE_BYTES = 256 * 1024;
const LARGE_PART = 1 / 8;
/** A body above the whole bound passes when what is there is this part of it: writes in flight may keep it from ever being nothing. */
const ALONE_PART = 1 / 4;
/** Retry-After is a second, and 32 MiB have to come once more. */
const RETURN_MS = 5000;
/** As long as a client may be refused again and again, for the level does not fall. */
const HOLD_MS = 15_000;

export class Gate {
  bytesMax = Infinity;
  /** 0: nothing is reserved. */
  #reserved = 0;
  #sinceMs = 0;
  #seenMs = 0;
  #againAtMs = -Infinity;

  /** Bytes that smaller bodies wait for; 0: none. */
  reservedAt(clockMs: number): number {
    const isOver = clockMs - this.#seenMs > RETURN_MS || clockMs - this.#sinceMs > HOLD_MS;
    if (this.#reserved > 0 && isOver) this.#end(clockMs);
    return this.#reserved;
  }

  /** Is there room for a body when so much is there? */
  hasRoom(level: number, bytes: number, clockMs: number): boolean {
    const reserved = this.reservedAt(clockMs);
    if (bytes < reserved) return false;
    if (level === 0 || level + bytes <= this.bytesMax) return true;
    return bytes > this.bytesMax && reserved > 0 && level <= this.bytesMax * ALONE_PART;
  }

  passed(bytes: number, clockMs: number): void {
    if (this.#reserved > 0 && bytes >= this.#reserved) this.#end(clockMs);
  }

  refused(bytes: number, clockMs: number): void {
    const reserved = this.reservedAt(clockMs);
    if (reserved > 0) {
      if (bytes >= reserved) this.#seenMs = clockMs;
      return;
    }
    if (clockMs < this.#againAtMs || bytes < Math.min(LARGE_BYTES, this.bytesMax * LARGE_PART)) return;
    this.#reserved = bytes;
    this.#sinceMs = clockMs;
    this.#seenMs = clockMs;
  }

  #end(clockMs: number): void {
    this.#reserved = 0;
    this.#againAtMs = clockMs + (clockMs - this.#sinceMs);
  }
}
