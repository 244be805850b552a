/** Listing of a bucket's streams in one group, in byte order of the stream name, changed and stored heads together. */
import type { ListedStream } from '../../protocol/queries/summaries.ts';
import { readText } from '../../base/text.ts';
import { type Head, decodeHead } from '../core/head.ts';
import { compareBytes } from '../../base/bytes.ts';
import { walkMerged } from '../../base/overlay.ts';
import { NUL, TAG, prefixEnd, restOf, taggedKey } from '../core/keys.ts';
import type { State } from '../core/state.ts';

/** Streams of `bucket` whose name starts with `prefix` and sorts after `after`, at most `limit`; none expired. */
export function listStreams(
  state: State,
  bucket: Uint8Array,
  prefix: Uint8Array,
  after: Uint8Array,
  limit: number,
  nowMs: number,
): ListedStream[] {
  const listed: ListedStream[] = [];
  if (limit === 0) return listed;
  eachHead(state, bucket, prefix, after, (key, changed, row) => {
    const head = changed ?? decodeHead(key.slice(), 0, row as Uint8Array);
    if (!head.dead && !head.provisional && !head.expired(nowMs)) listed.push(show(head));
    return listed.length < limit;
  });
  return listed;
}

/**
 * Visits the streams of `bucket` whose name starts with `prefix` and sorts after `after`, in order, until `visit`
 * returns false. A changed stream is passed as its head (dead ones included), any other as its row in the store.
 */
export function eachHead(
  state: State,
  bucket: Uint8Array,
  prefix: Uint8Array,
  after: Uint8Array,
  visit: (key: Uint8Array, changed: Head | undefined, row: Uint8Array | undefined) => boolean,
): void {
  const start = nameKey(state.prefix, bucket, prefix);
  const end = prefixEnd(start);
  // One more NUL makes it the immediate successor of the key of `after`.
  const behind = nameKey(state.prefix, bucket, after, 1);
  const first = after.length === 0 || compareBytes(start, behind) >= 0 ? start : behind;

  const changed: Head[] = [];
  state.eachDirty((head) => {
    const key = taggedKey(state.prefix, TAG.head, head.key);
    if (compareBytes(key, first) >= 0 && compareBytes(key, end) < 0) changed.push(head);
  });
  changed.sort((a, b) => compareBytes(a.key, b.key));
  walkMerged(
    changed,
    1,
    (each) => state.tx.range(first, end, false, (key, row) => each(restOf(key), row)),
    (head) => visit(head.key, head, undefined),
    (name, row) => visit(name, undefined, row),
  );
}

/** Key of the heads of `bucket` whose name begins with `name` and so many NULs. */
function nameKey(group: number, bucket: Uint8Array, name: Uint8Array, nuls = 0): Uint8Array {
  const rest = new Uint8Array(bucket.length + 1 + name.length + nuls);
  rest.set(bucket);
  rest[bucket.length] = NUL;
  rest.set(name, bucket.length + 1);
  return taggedKey(group, TAG.head, rest);
}

function show(head: Head): ListedStream {
  const front = head.bucketBytes + 1;
  return {
    stream_id: readText(head.key, front, head.key.length - front),
    status: head.closed ? 'Closed' : 'Open',
    content_type: head.shownContentType,
    tail_offset: head.tail,
    created_at_ms: head.createdAtMs,
    last_write_at_ms: head.writtenAtMs,
  };
}
