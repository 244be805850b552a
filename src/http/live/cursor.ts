/**
 * Cursors of live answers (protocol section 8.1). A cursor names a span of time, not a position: clients echo it in the
 * next URL, so caches collapse the requests of one span, and no answer may send a client back to a URL that it has used.
 */

/** Spans are counted from here: 2024-10-09T00:00:00Z, the protocol's epoch. */
const CURSOR_EPOCH_MS = Date.UTC(2024, 9, 9);
/** Length of a span. */
export const CURSOR_SPAN_MS = 20_000;
/** A client that is not behind the clock is moved ahead by 1 to 3600 s (protocol), counted in whole spans. */
export const CURSOR_JITTER_SPANS_MAX = 3_600_000 / CURSOR_SPAN_MS;

/** Number of the span that `wallMs` (milliseconds since 1970) lies in. */
export function cursorSpan(wallMs: number): number {
  return Math.max(0, Math.floor((wallMs - CURSOR_EPOCH_MS) / CURSOR_SPAN_MS));
}

/**
 * The least cursor an answer may carry: 0, meaning the current span, for a client that sent none or an older one; else more
 * than what it sent. `random` is uniform in [0, 1). Values that could not be counted up exactly are taken as none.
 */
export function cursorFloor(requested: number | undefined, span: number, random: number): number {
  if (requested === undefined || requested < span) return 0;
  const cursor = requested + 1 + Math.floor(random * CURSOR_JITTER_SPANS_MAX);
  return Number.isSafeInteger(cursor) ? cursor : 0;
}
