// The payload of a fan-out event, shared by the publisher and the readers. It carries its number and the moment it was
// sent, so a reader needs no table of send times and the two may be different processes.

import assert from 'node:assert/strict';

/** "@@" sequence(8) ":" microseconds(16) "@@" then padding. Plain text: the servers must not base64 it. */
const MARK = '@@';
export const MARKER_BYTES = 2 + 8 + 1 + 16 + 2;
const PADDING_CHAR = '.';

/** CLOCK_MONOTONIC: the same clock in every process of one machine, unlike performance.now(). */
export function nowUs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e6 + Math.floor(nanoseconds / 1e3);
}

export function encodeEvent(sequence: number, sentUs: number, sizeBytes: number): Buffer {
  assert(sizeBytes >= MARKER_BYTES, `an event needs ${MARKER_BYTES} bytes`);
  const marker = `${MARK}${String(sequence).padStart(8, '0')}:${String(sentUs).padStart(16, '0')}${MARK}`;
  assert(marker.length === MARKER_BYTES, `marker of ${marker.length} bytes`);
  return Buffer.from(marker.padEnd(sizeBytes, PADDING_CHAR), 'latin1');
}

function digits(buffer: Buffer, start: number, end: number): number {
  let value = 0;
  for (let at = start; at < end; at++) value = value * 10 + (buffer[at]! - 48);
  return value;
}

/**
 * Calls `onEvent` for each complete marker in [start, end) and returns where an incomplete one begins (`end` if none):
 * the caller keeps those bytes for the next piece.
 */
export function scanEvents(
  buffer: Buffer,
  start: number,
  end: number,
  onEvent: (sequence: number, sentUs: number) => void,
): number {
  let at = start;
  for (;;) {
    const mark = buffer.indexOf(MARK, at, 'latin1');
    if (mark < 0 || mark >= end) return end > start && buffer[end - 1] === 0x40 ? end - 1 : end;
    if (mark + MARKER_BYTES > end) return mark;
    onEvent(digits(buffer, mark + 2, mark + 10), digits(buffer, mark + 11, mark + 27));
    at = mark + MARKER_BYTES;
  }
}

/** Holds a reader's events against what it must get: every event once, in order. */
export class EventOrder {
  /** The number the next event must have. */
  nextSequence = 0;
  /** Events that were skipped, and events seen twice or late. Both must stay 0. */
  gaps = 0;
  repeats = 0;

  take(sequence: number): void {
    if (sequence < this.nextSequence) {
      this.repeats++;
      return;
    }
    this.gaps += sequence - this.nextSequence;
    this.nextSequence = sequence + 1;
  }
}
