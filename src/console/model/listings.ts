/** Buckets and pages of streams, as the admin plane lists them. */
import { type Json, isObject, numberAt } from '../../nodes/report.ts';

export interface BucketRow {
  readonly name: string;
  readonly streams: number;
  readonly retainedBytes: number;
  readonly appendedBytes: number;
  readonly records: number;
}

const BUCKET = /("(?:[^"\\]|\\.)*"):(\{[^{}]*\})/g;

/** Reads a usage report, which may have been cut: a cluster may have a million buckets. */
export function bucketsOf(usage: string): BucketRow[] {
  const from = usage.indexOf('"buckets":{');
  if (from < 0) return [];
  return [...usage.slice(from + '"buckets":{'.length).matchAll(BUCKET)].flatMap(([, name = '', meters = '']) => {
    const parsed: unknown = JSON.parse(meters);
    if (!isObject(parsed)) return [];
    return [
      {
        name: String(JSON.parse(name)),
        streams: numberAt(parsed, 'stream_count'),
        retainedBytes: numberAt(parsed, 'retained_bytes'),
        appendedBytes: numberAt(parsed, 'committed_append_bytes'),
        records: numberAt(parsed, 'committed_records'),
      },
    ];
  });
}

export type BucketOrder = keyof BucketRow;

/** Names from A, numbers from the largest. */
export function sortedBuckets(buckets: readonly BucketRow[], order: BucketOrder): BucketRow[] {
  return buckets.toSorted((a, b) => {
    if (order !== 'name' && a[order] !== b[order]) return b[order] - a[order];
    return a.name < b.name ? -1 : 1;
  });
}

/** Undefined maxima: no bound. */
export interface QuotaUse {
  readonly streams: number;
  readonly streamsMax: number | undefined;
  readonly bytes: number;
  readonly bytesMax: number | undefined;
}

export function quotaOf(answer: unknown): QuotaUse | undefined {
  if (!isObject(answer)) return undefined;
  const bound = (name: string): number | undefined =>
    typeof answer[name] === 'number' ? numberAt(answer, name) : undefined;
  return {
    streams: numberAt(answer, 'used_streams'),
    streamsMax: bound('max_streams') ?? bound('default_max_streams'),
    bytes: numberAt(answer, 'used_retained_bytes'),
    bytesMax: bound('max_retained_bytes') ?? bound('default_max_retained_bytes'),
  };
}

export interface StreamRow {
  readonly name: string;
  readonly isClosed: boolean;
  readonly contentType: string;
  readonly tail: number;
  readonly createdMs: number;
  readonly writtenMs: number;
}

export interface StreamPage {
  readonly streams: readonly StreamRow[];
  /** Where the next page begins; undefined: this is the last one. */
  readonly next: string | undefined;
}

/** No node answers with more rows than a page asks for, and a page draws no more. */
const ROWS_MAX = 1000;

/** Undefined: this is no listing, or the end of it is missing. */
export function streamsOf(listing: unknown): StreamPage | undefined {
  if (!isObject(listing) || !Array.isArray(listing['streams'])) return undefined;
  const { next_cursor: next } = listing;
  const streams = listing['streams']
    .slice(0, ROWS_MAX)
    .filter(isObject)
    .map((row) => ({
      name: String(row['stream_id']),
      isClosed: row['status'] === 'Closed',
      contentType: String(row['content_type']),
      tail: numberAt(row, 'tail_offset'),
      createdMs: numberAt(row, 'created_at_ms'),
      writtenMs: numberAt(row, 'last_write_at_ms'),
    }));
  return { streams, next: typeof next === 'string' ? next : undefined };
}

export interface SubscriptionRow {
  readonly id: string;
  readonly type: string;
  readonly target: string;
  readonly streams: number;
  /** In one or two words: what it waits for. */
  readonly state: string;
  readonly failures: number;
  readonly lastError: string;
  /** A failed delivery waits for its next attempt. */
  readonly isPaused: boolean;
  readonly leaseUntilMs: number | undefined;
  readonly holder: string;
}

export interface SubscriptionPage {
  readonly subscriptions: readonly SubscriptionRow[];
  readonly next: string | undefined;
}

export function subscriptionsOf(listing: unknown): SubscriptionPage | undefined {
  if (!isObject(listing) || !Array.isArray(listing['subscriptions'])) return undefined;
  const { next_cursor: next } = listing;
  const subscriptions = listing['subscriptions']
    .slice(0, ROWS_MAX)
    .filter(isObject)
    .map((row): SubscriptionRow => ({
      id: textAt(row, 'id'),
      type: textAt(row, 'type'),
      target: textAt(row, 'target'),
      streams: numberAt(row, 'streams'),
      state: stateOf(row),
      failures: numberAt(row, 'failures'),
      lastError: textAt(row, 'last_error'),
      isPaused: typeof row['next_attempt_at_ms'] === 'number',
      leaseUntilMs: typeof row['lease_until_ms'] === 'number' ? row['lease_until_ms'] : undefined,
      holder: textAt(row, 'holder'),
    }));
  return { subscriptions, next: typeof next === 'string' ? next : undefined };
}

function stateOf(row: Json): string {
  if (numberAt(row, 'failures') > 0) return 'failing';
  if (row['wake_under_way'] === true) return row['delivered'] === true ? 'with its receiver' : 'being delivered';
  return row['has_pending'] === true ? 'pending' : 'up to date';
}

function textAt(value: Json, name: string): string {
  const found = value[name];
  return typeof found === 'string' ? found : '';
}
