/**
 * Where a moment lies in a JSON stream. Nodes keep when a stream was written last, not when each record was, so the
 * records have to say it themselves, in one of their fields.
 */
import { parseDurationMs } from '../../config/values.ts';
import { Failure, UsageError, printable } from '../../nodes/failure.ts';
import { isObject } from '../../nodes/report.ts';
import { type Context, textFlag } from '../context.ts';
import type { Flag } from '../flags.ts';
import { type StreamFacts, readPiece } from './reading.ts';
import type { StreamClient } from './stream-client.ts';
import type { NamedStream } from './stream-name.ts';

const DEFAULT_FIELD = 'time';
/** Smaller numbers are seconds: as milliseconds they end in March 1973. */
const SECONDS_MAX = 1e11;
const MOMENT = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;

export const TIME = 'how long ago, as 10m, or when, as 2026-01-31T12:00Z';

export const WRITTEN_SINCE = textFlag('TIME', `only streams that were written since: ${TIME}`);

export const SINCE = {
  since: textFlag('TIME', `begin with the first record of a JSON stream since: ${TIME}`),
  'time-field': textFlag('FIELD', `field in which records have their time, for --since (${DEFAULT_FIELD})`),
} satisfies Record<string, Flag>;

/** Milliseconds since 1970; undefined: the flag is not given. */
export function sinceMsOf({ values }: Context): number | undefined {
  const written = values.text('since');
  if (written === undefined) return undefined;
  const agoMs = /^\d+$/.test(written) ? undefined : parseDurationMs(written);
  const ms = agoMs === undefined ? momentMs(written) : Date.now() - agoMs;
  if (ms === undefined) throw new UsageError(`--since ${written}: expected ${TIME}`);
  return ms;
}

/**
 * The record that --since names: the first that is not older, if times grow from record to record, and the one behind the last
 * when all are older. Undefined: the flag is not given. Looks at as many records as their number has binary digits.
 */
export async function recordSince(
  context: Context,
  client: StreamClient,
  name: NamedStream,
  { records }: StreamFacts,
): Promise<number | undefined> {
  const sinceMs = sinceMsOf(context);
  if (sinceMs === undefined) return undefined;
  if (records === undefined)
    throw new Failure(
      `${name.text}: only records of JSON streams can say their time, so --since cannot find it in this one`,
    );
  const field = context.values.text('time-field') ?? DEFAULT_FIELD;
  let { first: low, next: high } = records;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const { bytes } = await readPiece(client, name, `record=${middle}&max_records=1`);
    const ms = timeIn(bytes, field);
    if (ms === undefined)
      throw new Failure(
        `${name.text}: record ${middle} has no time in its field "${printable(field)}"; --time-field names the one that has it, as RFC 3339 or a number since 1970`,
      );
    if (ms >= sinceMs) high = middle;
    else low = middle + 1;
  }
  return low;
}

function timeIn(line: Buffer, field: string): number | undefined {
  const record = JSON.parse(line.toString('utf8')) as unknown;
  const value = isObject(record) && Object.hasOwn(record, field) ? record[field] : undefined;
  if (typeof value === 'number') return value < SECONDS_MAX ? value * 1000 : value;
  return typeof value === 'string' ? momentMs(value) : undefined;
}

function momentMs(written: string): number | undefined {
  const ms = MOMENT.test(written) ? Date.parse(written) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}
