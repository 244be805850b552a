/** RFC 3339 timestamps of request headers. Answers have them as Date.toISOString() writes them. */
import { type Parsed, TIMESTAMP_MS_MAX, malformed, outOfRange } from '../protocol/header-values.ts';

const PATTERN = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;
const MINUTE_MS = 60_000;
const DAY_MINUTES = 1440;
/** The calendar repeats itself after so long. Date takes the years 0 to 99 for 1900 to 1999. */
const ERA_YEARS = 2000;
const ERA_MS = 5 * 146_097 * DAY_MINUTES * MINUTE_MS;

/**
 * A strict RFC 3339 date-time: `T` and `Z` in either case, or an offset up to 23:59. Digits of the second beyond the
 * millisecond are cut. Second 60 is accepted only where a leap second can be, at 23:59 UTC, and means the next second.
 * Before the epoch or beyond year 9999 (in UTC) is out of range.
 */
export function parseRfc3339(text: string): Parsed<number> {
  const match = PATTERN.exec(text);
  if (match === null) return malformed('the timestamp must look like 2026-01-31T23:59:59Z');
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match.slice(1, 7).map(Number);
  const fractionMs = match[7] === undefined ? 0 : Number(match[7].slice(0, 3).padEnd(3, '0'));
  const offsetHour = Number(match[9] ?? 0);
  const offsetMinute = Number(match[10] ?? 0);
  if (month < 1 || month > 12) return malformed('the timestamp has a month outside 01..12');
  if (day < 1 || day > new Date(Date.UTC(year + ERA_YEARS, month, 0)).getUTCDate()) {
    return malformed('the timestamp has a day that its month does not have');
  }
  if (hour > 23 || minute > 59 || second > 60) return malformed('the timestamp has no such time of day');
  if (offsetHour > 23 || offsetMinute > 59) return malformed('the timestamp has no such time zone offset');
  const eastMinutes = (offsetHour * 60 + offsetMinute) * (match[8] === '-' ? -1 : 1);
  const utcMs = Date.UTC(year + ERA_YEARS, month - 1, day, hour, minute - eastMinutes);
  if (second === 60 && (utcMs / MINUTE_MS) % DAY_MINUTES !== DAY_MINUTES - 1) {
    return malformed('the timestamp has second 60 where no leap second can be');
  }
  const ms = utcMs - ERA_MS + second * 1000 + fractionMs;
  if (ms < 0) return outOfRange('the timestamp is before 1970-01-01T00:00:00Z');
  if (ms > TIMESTAMP_MS_MAX) return outOfRange('the timestamp is after the year 9999');
  return { ok: true, value: ms };
}
