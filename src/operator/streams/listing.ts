/** Lists the streams of a bucket, and the buckets. */
import { compareText } from '../../base/text.ts';
import { Failure } from '../../nodes/failure.ts';
import { membersOf } from '../../nodes/http-client.ts';
import { type Json, isObject } from '../../nodes/report.ts';
import { wholeNumber } from './reading.ts';
import { type StreamClient, expectStatus } from './stream-client.ts';
import { bucketPath } from './stream-name.ts';

const PAGE_STREAMS = 1000;

export interface Listing {
  readonly prefix: string;
  readonly limit: number;
  /** Only streams whose last write is not older. */
  readonly writtenSinceMs?: number | undefined;
}

/** Pages in the order of names. */
export async function* listStreams(
  client: StreamClient,
  bucket: string,
  { prefix, limit, writtenSinceMs = -Infinity }: Listing,
): AsyncGenerator<Listed[], void> {
  let after: string | undefined;
  for (let left = limit; left > 0;) {
    const most = writtenSinceMs === -Infinity ? Math.min(PAGE_STREAMS, left) : PAGE_STREAMS;
    const query = new URLSearchParams({ prefix, limit: String(most) });
    if (after !== undefined) query.set('after', after);
    const path = `${bucketPath(bucket)}/streams?${query.toString()}`;
    const answer = await client.call({ method: 'GET', path, mayRepeat: true });
    const page = membersOf(expectStatus(answer, `bucket ${bucket}`, 200).body.toString('utf8'));
    const listed = Array.isArray(page['streams']) ? page['streams'].filter(isObject).map(listedOf) : [];
    const streams = listed.filter(({ lastWriteMs = 0 }) => lastWriteMs >= writtenSinceMs).slice(0, left);
    if (streams.length > 0) yield streams;
    const next = page['next_cursor'];
    if (page['has_more'] !== true || typeof next !== 'string') return;
    // A cursor is the last name of its page.
    if (after !== undefined && compareText(next, after) <= 0)
      throw new Failure(`bucket ${bucket}: a page of its streams ends where it begins`);
    after = next;
    left -= streams.length;
  }
}

export type Listed = Readonly<ReturnType<typeof listedOf>>;

function listedOf(raw: Json) {
  return {
    stream: textIn(raw, 'stream_id'),
    contentType: textIn(raw, 'content_type'),
    status: textIn(raw, 'status'),
    tail: numberIn(raw, 'tail_offset') ?? 0,
    createdMs: numberIn(raw, 'created_at_ms'),
    lastWriteMs: numberIn(raw, 'last_write_at_ms'),
    /** The row as the node sent it. */
    raw,
  };
}

export interface ListedBucket {
  readonly bucket: string;
  readonly streams: number;
  readonly retainedBytes: number;
  readonly raw: Json;
}

/** By name, as the node that answers knows all groups; also those that were purged, whose counters stay. */
export async function listBuckets(client: StreamClient): Promise<ListedBucket[]> {
  const answer = await client.call({ method: 'GET', path: '/__svc/usage', mayRepeat: true });
  const { buckets } = membersOf(expectStatus(answer, 'the usage report', 200).body.toString('utf8'));
  return Object.entries(isObject(buckets) ? buckets : {})
    .flatMap(([bucket, raw]) =>
      isObject(raw)
        ? [
            {
              bucket,
              streams: numberIn(raw, 'stream_count') ?? 0,
              retainedBytes: numberIn(raw, 'retained_bytes') ?? 0,
              raw,
            },
          ]
        : [],
    )
    .toSorted((a, b) => (a.bucket < b.bucket ? -1 : 1));
}

function textIn(object: Json, name: string): string {
  const value = object[name];
  return typeof value === 'string' ? value : '';
}

/** Offsets may come as the text that headers have. */
function numberIn(object: Json, name: string): number | undefined {
  const value = object[name];
  return typeof value === 'number' ? value : wholeNumber(value);
}
