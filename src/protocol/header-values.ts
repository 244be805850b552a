/**
 * Converts header, query and path values to numbers and back: pure functions of strings. A failure carries a sentence
 * for a 400 body; no function throws on bad input.
 */
import { assert } from '../base/assert.ts';
import { PRODUCER_ID_BYTES_MAX } from '../base/limits.ts';

export type ParseFailure = { ok: false; kind: 'malformed' | 'out-of-range'; reason: string };
export type Parsed<T> = { ok: true; value: T } | ParseFailure;

export interface ProducerHeaders {
  id: string;
  epoch: number;
  seq: number;
}

/** Position meant by `offset=-1`: the start of the stream. */
export const OFFSET_START = -1;
/** Digits of an offset on the wire; no accepted integer may be longer, even with leading zeros. */
export const OFFSET_DIGITS = 20;
/** Seconds that still fit as whole milliseconds in 2^53 - 1. */
export const TTL_SECONDS_MAX = Math.floor(Number.MAX_SAFE_INTEGER / 1000);
/** 9999-12-31T23:59:59.999Z: RFC 3339 has four digits for the year. */
export const TIMESTAMP_MS_MAX = 253_402_300_799_999;
/** Results of parseDigits that are not numbers. */
const MALFORMED = -1;
const OUT_OF_RANGE = -2;

export function malformed(reason: string): ParseFailure {
  return { ok: false, kind: 'malformed', reason };
}

export function outOfRange(reason: string): ParseFailure {
  return { ok: false, kind: 'out-of-range', reason };
}

/** Decimal digits only, leading zeros allowed, up to 2^53 - 1. A value that is only too large is OUT_OF_RANGE. */
function parseDigits(text: string): number {
  const length = text.length;
  if (length === 0) return MALFORMED;
  let value = 0;
  for (let i = 0; i < length; i++) {
    const digit = text.charCodeAt(i) - 48;
    if (digit < 0 || digit > 9) return MALFORMED;
    // Beyond 2^53 the sum is inexact, but it can only grow, so the comparison below still holds.
    value = value * 10 + digit;
  }
  if (value > Number.MAX_SAFE_INTEGER) return OUT_OF_RANGE;
  return length > OFFSET_DIGITS ? MALFORMED : value;
}

/** An integer 0..9007199254740991; `what` names the value in the sentence, e.g. `Producer-Seq`. */
export function parseUint53(text: string, what = 'the number'): Parsed<number> {
  const value = parseDigits(text);
  if (value >= 0) return { ok: true, value };
  if (value === OUT_OF_RANGE) return outOfRange(`${what} is out of range: at most ${Number.MAX_SAFE_INTEGER}`);
  return malformed(`${what} must be decimal digits`);
}

/** `-1` (OFFSET_START), `now`, or a byte position, padded with zeros or not. */
export function parseOffset(text: string): Parsed<number | 'now'> {
  const value = parseDigits(text);
  if (value >= 0) return { ok: true, value };
  if (text === '-1') return { ok: true, value: OFFSET_START };
  if (text === 'now') return { ok: true, value: 'now' };
  if (value === OUT_OF_RANGE) return outOfRange(`the offset is out of range: at most ${Number.MAX_SAFE_INTEGER}`);
  return malformed('the offset must be -1, now, or up to 20 decimal digits');
}

/** ZEROS[n] pads a number of n digits to OFFSET_DIGITS. */
const ZEROS: readonly string[] = Array.from({ length: OFFSET_DIGITS + 1 }, (_, n) => '0'.repeat(OFFSET_DIGITS - n));

/** An offset on the wire: 20 digits, so text order is numeric order. */
export function formatOffset(offset: number): string {
  assert(Number.isSafeInteger(offset) && offset >= 0, `offset ${offset} is not a byte position`);
  const digits = String(offset);
  return (ZEROS[digits.length] as string) + digits;
}

/** From here on a division takes several times as long. */
const INT32_MAX = 0x7fff_ffff;
const ZERO = 48;

/** formatOffset() into the OFFSET_DIGITS bytes at `at`: for the hot path, without a string. */
export function writeOffset(bytes: Uint8Array, at: number, offset: number): void {
  assert(Number.isSafeInteger(offset) && offset >= 0, `offset ${offset} is not a byte position`);
  let end = at + OFFSET_DIGITS;
  let rest = offset;
  while (rest > INT32_MAX) {
    const tenth = Math.floor(rest / 10);
    bytes[--end] = ZERO + (rest - 10 * tenth);
    rest = tenth;
  }
  for (let low = rest | 0; low > 0;) {
    const tenth = (low / 10) | 0;
    bytes[--end] = ZERO + (low - 10 * tenth);
    low = tenth;
  }
  while (end > at) bytes[--end] = ZERO;
}

/** Stream-TTL in seconds: digits, no leading zero unless it is `0`, and its milliseconds must fit 2^53 - 1. */
export function parseTtl(text: string): Parsed<number> {
  const value = parseDigits(text);
  if (value === MALFORMED || (text.length > 1 && text.charCodeAt(0) === 48)) {
    return malformed('Stream-TTL must be a whole number of seconds without a sign or leading zeros');
  }
  if (value === OUT_OF_RANGE || value > TTL_SECONDS_MAX) {
    return outOfRange(`Stream-TTL is out of range: at most ${TTL_SECONDS_MAX} seconds`);
  }
  return { ok: true, value };
}

/** True for `true` in any case; every other value, and none at all, counts as false. */
export function parseBooleanTrue(text: string | undefined): boolean {
  return text !== undefined && (text === 'true' || (text.length === 4 && text.toLowerCase() === 'true'));
}

/** Producer-Id, Producer-Epoch and Producer-Seq: all three, or none (value undefined). */
export function parseProducer(
  id: string | undefined,
  epoch: string | undefined,
  seq: string | undefined,
): Parsed<ProducerHeaders | undefined> {
  if (id === undefined && epoch === undefined && seq === undefined) return { ok: true, value: undefined };
  if (id === undefined || epoch === undefined || seq === undefined) {
    return malformed('Producer-Id, Producer-Epoch and Producer-Seq must be sent together');
  }
  const trimmedId = id.trim();
  if (trimmedId === '') return malformed('Producer-Id must not be empty');
  if (trimmedId.length > PRODUCER_ID_BYTES_MAX) {
    return outOfRange(`Producer-Id exceeds ${PRODUCER_ID_BYTES_MAX} bytes`);
  }
  const parsedEpoch = parseUint53(epoch.trim(), 'Producer-Epoch');
  if (!parsedEpoch.ok) return parsedEpoch;
  const parsedSeq = parseUint53(seq.trim(), 'Producer-Seq');
  if (!parsedSeq.ok) return parsedSeq;
  return { ok: true, value: { id: trimmedId, epoch: parsedEpoch.value, seq: parsedSeq.value } };
}

/**
 * A segment of a path or a value of a query with its percent-encoding undone; undefined when that is malformed or not
 * strict UTF-8. decodeURIComponent is native, strict about both, and decodes `%2F` as well, which bucketed routes need.
 */
export function decodeUrlPart(raw: string): string | undefined {
  if (!raw.includes('%')) return raw;
  try {
    return decodeURIComponent(raw);
  } catch {
    return undefined;
  }
}
