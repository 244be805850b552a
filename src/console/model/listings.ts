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

/** The use of a bucket. Undefined maxima: no bound. */
export function quotaOf(answer: unknown) {
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

export interface ListedPage<Row> {
  readonly rows: readonly Row[];
  /** Where the next page begins; undefined: this is the last one. */
  readonly next: string | undefined;
}

/** No node answers with more rows than a page asks for, and a page draws no more. */
const ROWS_MAX = 1000;

/** Undefined: this is no listing, or the end of it is missing. */
function pageOf<Row>(listing: unknown, name: string, rowOf: (row: Json) => Row): ListedPage<Row> | undefined {
  const { [name]: rows, next_cursor: next } = isObject(listing) ? listing : {};
  if (!Array.isArray(rows)) return undefined;
  const shown = rows.slice(0, ROWS_MAX).filter(isObject).map(rowOf);
  return { rows: shown, next: typeof next === 'string' ? next : undefined };
}

export const streamsOf = (listing: unknown): ListedPage<StreamRow> | undefined => pageOf(listing, 'streams', streamOf);
export type StreamRow = Readonly<ReturnType<typeof streamOf>>;

function streamOf(row: Json) {
  return {
    name: String(row['stream_id']),
    isClosed: row['status'] === 'Closed',
    contentType: String(row['content_type']),
    tail: numberAt(row, 'tail_offset'),
    createdMs: numberAt(row, 'created_at_ms'),
    writtenMs: numberAt(row, 'last_write_at_ms'),
  };
}

export const subscriptionsOf = (listing: unknown): ListedPage<SubscriptionRow> | undefined =>
  pageOf(listing, 'subscriptions', subscriptionOf);
export type SubscriptionRow = Readonly<ReturnType<typeof subscriptionOf>>;

function subscriptionOf(row: Json) {
  return {
    id: textAt(row, 'id'),
    type: textAt(row, 'type'),
    target: textAt(row, 'target'),
    streams: numberAt(row, 'streams'),
    /** In one or two words: what it waits for. */
    state: stateOf(row),
    failures: numberAt(row, 'failures'),
    lastError: textAt(row, 'last_error'),
    /** A failed delivery waits for its next attempt. */
    isPaused: typeof row['next_attempt_at_ms'] === 'number',
    leaseUntilMs: typeof row['lease_until_ms'] === 'number' ? row['lease_until_ms'] : undefined,
    holder: textAt(row, 'holder'),
  };
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
