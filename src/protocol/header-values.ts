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
/** Results of parseDigits that are not numbers. */
const MALFORMED = -1;
const OUT_OF_RANGE = -2;

function malformed(reason: string): ParseFailure {
  return { ok: false, kind: 'malformed', reason };
}

function outOfRange(reason: string): ParseFailure {
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

/** A record ordinal, as in `record=` and Stream-Record-Match. */
export function parseOrdinal(text: string, what = 'the record ordinal'): Parsed<number> {
  return parseUint53(text, what);
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
 * One path segment with its percent-encoding undone; undefined when the encoding is malformed or not strict UTF-8.
 * decodeURIComponent is native, strict about both, and decodes `%2F` as well, which the bucketed routes rely on.
 */
export function decodePathSegment(raw: string): string | undefined {
  if (!raw.includes('%')) return raw;
  try {
    return decodeURIComponent(raw);
  } catch {
    return undefined;
  }
}

// ---- RFC 3339 timestamps, by arithmetic alone: pure code has no clock and no Date ----

const DAY_MS = 86_400_000;
/** 9999-12-31T23:59:59.999Z: RFC 3339 has four digits for the year. */
export const TIMESTAMP_MS_MAX = 253_402_300_799_999;

const PATTERN = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function isLeapYear(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
}

function daysInMonth(year: number, month: number): number {
  return month === 2 && isLeapYear(year) ? 29 : (MONTH_DAYS[month - 1] as number);
}

/** Days from 1970-01-01 in the Gregorian calendar. Counting years from March puts the leap day at a year's end. */
function daysFromDate(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const monthFromMarch = (month + 9) % 12;
  const dayOfYear = Math.floor((153 * monthFromMarch + 2) / 5) + day - 1;
  return 365 * y + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + dayOfYear - 719_468;
}

/**
 * A strict RFC 3339 date-time: `T` and `Z` in either case, or an offset up to 23:59. Digits of the second beyond the
 * millisecond are cut. Second 60 is accepted only where a leap second can be, at 23:59 UTC, and means the next second.
 * Before the epoch or beyond year 9999 (in UTC) is out of range.
 */
export function parseRfc3339(text: string): Parsed<number> {
  const match = PATTERN.exec(text);
  if (match === null) return malformed('the timestamp must look like 2026-01-31T23:59:59Z');
  const year = Number(match[1]);
  const month = Number(match[2]);
  const day = Number(match[3]);
  const hour = Number(match[4]);
  const minute = Number(match[5]);
  const second = Number(match[6]);
  const fractionMs = match[7] === undefined ? 0 : Number(match[7].slice(0, 3).padEnd(3, '0'));
  const offsetHour = Number(match[9] ?? 0);
  const offsetMinute = Number(match[10] ?? 0);
  if (month < 1 || month > 12) return malformed('the timestamp has a month outside 01..12');
  if (day < 1 || day > daysInMonth(year, month)) {
    return malformed('the timestamp has a day that its month does not have');
  }
  if (hour > 23 || minute > 59 || second > 60) return malformed('the timestamp has no such time of day');
  if (offsetHour > 23 || offsetMinute > 59) return malformed('the timestamp has no such time zone offset');
  const localMinutes = daysFromDate(year, month, day) * 1440 + hour * 60 + minute;
  const eastMinutes = (offsetHour * 60 + offsetMinute) * (match[8] === '-' ? -1 : 1);
  const utcMinutes = localMinutes - eastMinutes;
  if (second === 60 && ((utcMinutes % 1440) + 1440) % 1440 !== 1439) {
    return malformed('the timestamp has second 60 where no leap second can be');
  }
  const ms = utcMinutes * 60_000 + second * 1000 + fractionMs;
  if (ms < 0) return outOfRange('the timestamp is before 1970-01-01T00:00:00Z');
  if (ms > TIMESTAMP_MS_MAX) return outOfRange('the timestamp is after the year 9999');
  return { ok: true, value: ms };
}

function padded(value: number, digits: number): string {
  return String(value).padStart(digits, '0');
}

/** `YYYY-MM-DDTHH:MM:SS.mmmZ` of whole milliseconds since the epoch. */
export function formatRfc3339(ms: number): string {
  assert(Number.isInteger(ms) && ms >= 0 && ms <= TIMESTAMP_MS_MAX, `${ms} ms is not within 1970..9999`);
  const days = Math.floor(ms / DAY_MS);
  const msOfDay = ms - days * DAY_MS;
  // The inverse of daysFromDate: 400-year eras of 146,097 days, then the year within, then months of 153 days by five.
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const monthFromMarch = Math.floor((5 * dayOfYear + 2) / 153);
  const day = dayOfYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1;
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9;
  const year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0);
  const seconds = Math.floor(msOfDay / 1000);
  const date = `${padded(year, 4)}-${padded(month, 2)}-${padded(day, 2)}`;
  const hour = padded(Math.floor(seconds / 3600), 2);
  const minute = padded(Math.floor(seconds / 60) % 60, 2);
  return `${date}T${hour}:${minute}:${padded(seconds % 60, 2)}.${padded(msOfDay % 1000, 3)}Z`;
}
