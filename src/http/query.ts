/** Queries of reads. */
import { OFFSET_START, parseOffset, parseUint53 } from '../protocol/header-values.ts';
import { type QueryResult, collect, fail, parsePositive } from '../protocol/query-string.ts';
import { READ_FLAG_ENVELOPE } from '../protocol/queries/read.ts';
import { READ_NOW, READ_OFFSET, READ_RECORD, READ_RECORD_NOW, READ_TAIL_RECORDS } from '../protocol/read-fields.ts';
import { parseEventId } from '../topics/events.ts';
import type { ReadParams } from './context.ts';

export interface ReadQuery {
  readonly params: ReadParams;
  /** max_bytes=0: check the position, return no bytes (ReadParams cannot say it: 0 there means no bound). */
  readonly noBytes: boolean;
}

/** Longest wait of a long-poll in ms. */
export const LONG_POLL_MS_MAX = 60_000;
/** The shard takes the bound as u32; more than any answer holds means the same. */
const UINT32_MAX = 0xffff_ffff;

const READ_NAMES: ReadonlySet<string> = new Set([
  ...['offset', 'max_bytes', 'live', 'timeout_ms', 'cursor', 'event', 'wait'],
  ...['record', 'tail_records', 'max_records', 'record_view'],
]);

/** A plain GET without a query is the most frequent read of all. */
function wholeStream(longPollTimeoutMs: number, ifNoneMatch: string): ReadQuery {
  const params: ReadParams = {
    mode: READ_OFFSET,
    value: 0,
    maxBytes: 0,
    maxRecords: 0,
    readFlags: 0,
    live: '',
    timeoutMs: longPollTimeoutMs,
    cursor: undefined,
    ifNoneMatch,
  };
  return { params, noBytes: false };
}

/** Query of a read. The first complaint wins; which one that is, clients may rely on. */
export function parseReadQuery(
  query: string | undefined,
  longPollTimeoutMs: number,
  ifNoneMatch: string,
): QueryResult<ReadQuery> {
  if (query === undefined || query === '') return { ok: true, value: wholeStream(longPollTimeoutMs, ifNoneMatch) };
  const collected = collect(query, READ_NAMES);
  if (!collected.ok) return collected;
  const values = collected.value;
  const offset = values.get('offset');
  const record = values.get('record');
  const tailRecords = values.get('tail_records');
  const byRecords = record !== undefined || tailRecords !== undefined;

  const view = values.get('record_view');
  if (view !== undefined && view !== 'envelope') return fail('record_view must be envelope');
  if (view !== undefined && !byRecords) return fail('record_view needs record or tail_records');
  if (record !== undefined && tailRecords !== undefined) return fail('record and tail_records exclude each other');
  if (byRecords && offset !== undefined) return fail('record and tail_records exclude offset');
  if (values.has('max_records') && !byRecords) return fail('max_records needs record or tail_records');
  if (values.has('max_bytes') && byRecords) return fail('max_bytes cannot be used with record or tail_records');
  const live = values.get('live');
  if (live !== undefined && !byRecords && offset === undefined) {
    return fail('live needs a position: offset, record or tail_records');
  }
  const start = byRecords ? parseRecordStart(record, tailRecords) : parseOffsetStart(offset);
  if (!start.ok) return start;
  const maxRecords = parsePositive(values.get('max_records'), 'max_records');
  if (!maxRecords.ok) return maxRecords;
  const maxBytes = values.get('max_bytes');
  const bytes = maxBytes === undefined ? undefined : parseWish(maxBytes);
  if (live !== undefined && live !== 'long-poll' && live !== 'sse') return fail('live must be long-poll or sse');
  const event = values.get('event');
  if (event !== undefined && event !== 'data' && event !== 'message') return fail('event must be data or message');
  if (event !== undefined && live !== 'sse') return fail('event needs live=sse');
  const wait = values.get('wait');
  if (wait !== undefined && wait !== 'create') return fail('wait must be create');
  if (wait !== undefined && live === undefined) return fail('wait needs live');
  const cursor = values.get('cursor');
  // A cursor is opaque to clients; one that is not ours is as good as none.
  const parsedCursor = cursor === undefined ? undefined : parseUint53(cursor, 'cursor');

  const params: ReadParams = {
    mode: start.value.mode,
    value: start.value.value,
    // A live reader cannot wait for no bytes: there 0 means 1.
    maxBytes: bytes === undefined ? 0 : Math.min(Math.max(bytes, 1), UINT32_MAX),
    maxRecords: Math.min(maxRecords.value, UINT32_MAX),
    readFlags: view === undefined ? 0 : READ_FLAG_ENVELOPE,
    live: live ?? '',
    timeoutMs: parseTimeout(values.get('timeout_ms'), longPollTimeoutMs),
    cursor: parsedCursor?.ok === true ? parsedCursor.value : undefined,
    event,
    wait,
    ifNoneMatch,
  };
  return { ok: true, value: { params, noBytes: bytes === 0 && live === undefined } };
}

/**
 * The read that goes on behind the event `id`, empty for none. Undefined: not an id of an event
 * that this URL gives. Browsers send back what they got, so the mistake is in the client's own
 * code, and starting over would hide it behind a replay.
 */
export function resumeBehind(params: ReadParams, id: string): ReadParams | undefined {
  if (id === '') return params;
  const place = parseEventId(id);
  if (place === undefined || place.byRecord !== isRecordRead(params)) return undefined;
  const { byRecord, ...rest } = place;
  return { ...params, ...rest, mode: byRecord ? READ_RECORD : READ_OFFSET };
}

/** Was the read addressed by records? Then its answer carries the record range. */
export function isRecordRead(params: ReadParams): boolean {
  return params.mode !== READ_OFFSET && params.mode !== READ_NOW;
}

interface Start {
  readonly mode: number;
  readonly value: number;
}

function parseOffsetStart(offset: string | undefined): QueryResult<Start> {
  if (offset === undefined) return { ok: true, value: { mode: READ_OFFSET, value: 0 } };
  if (offset === '') return fail('offset is empty');
  const parsed = parseOffset(offset);
  if (!parsed.ok) return fail(parsed.reason);
  if (parsed.value === 'now') return { ok: true, value: { mode: READ_NOW, value: 0 } };
  return { ok: true, value: { mode: READ_OFFSET, value: parsed.value === OFFSET_START ? 0 : parsed.value } };
}

function parseRecordStart(record: string | undefined, tailRecords: string | undefined): QueryResult<Start> {
  if (record === 'now' || tailRecords === '0') return { ok: true, value: { mode: READ_RECORD_NOW, value: 0 } };
  const isTail = record === undefined;
  const parsed = parseUint53(record ?? tailRecords ?? '', isTail ? 'tail_records' : 'record');
  if (!parsed.ok) return fail(parsed.reason);
  return { ok: true, value: { mode: isTail ? READ_TAIL_RECORDS : READ_RECORD, value: parsed.value } };
}

function parseTimeout(text: string | undefined, defaultMs: number): number {
  const wish = text === undefined ? undefined : parseWish(text);
  return wish === undefined ? defaultMs : Math.min(Math.max(wish, 1), LONG_POLL_MS_MAX);
}

/** A bound that the client would like: what cannot be parsed is ignored, what is huge is as good as any bound above. */
function parseWish(text: string): number | undefined {
  const parsed = parseUint53(text);
  if (parsed.ok) return parsed.value;
  return parsed.kind === 'out-of-range' ? UINT32_MAX : undefined;
}
