/**
 * A bound on bytes that drain over time, fair to large bodies. Without it smaller bodies would take every byte that
 * becomes free. A refused large body therefore reserves space: smaller ones are refused until it has returned and
 * passed. A client that never returns delays the others only briefly, and a reservation is not followed at once by
 * another. Pure: the caller passes the monotonic clock.
 */

/** A body of at least this size, or of this fraction of the bound, is large. Smaller ones have about equal chances. */
const LARGE_BYTES = 256 * 1024;
const LARGE_PART = 1 / 8;
/**
 * A body above the whole bound passes when the level is at most this fraction of it, because writes in flight may keep
 * the level above zero.
 */
const ALONE_PART = 1 / 4;
/** Retry-After is one second, and 32 MiB must be sent again. */
const RETURN_MS = 5000;
/** Limit of a reservation whose client is refused again and again because the level does not fall. */
const HOLD_MS = 15_000;

export class Gate {
  bytesMax = Infinity;
  /** 0: no reservation. */
  #reserved = 0;
  #sinceMs = 0;
  #seenMs = 0;
  #againAtMs = -Infinity;

  /** Bytes reserved ahead of smaller bodies; 0: none. */
  reservedAt(clockMs: number): number {
    const isOver = clockMs - this.#seenMs > RETURN_MS || clockMs - this.#sinceMs > HOLD_MS;
    if (this.#reserved > 0 && isOver) this.#end(clockMs);
    return this.#reserved;
  }

  /** Whether a body fits at the given level. */
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
