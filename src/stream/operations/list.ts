/** Listing of a bucket's streams in one group, in byte order of the stream name, changed and stored heads together. */
import type { ListedStream } from '../../protocol/queries/summaries.ts';
import { readText } from '../../base/text.ts';
import { type Head, decodeHead } from '../core/head.ts';
import { compareBytes } from '../../base/bytes.ts';
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
  const front = new Uint8Array(bucket.length + 1 + prefix.length);
  front.set(bucket);
  front[bucket.length] = NUL;
  front.set(prefix, bucket.length + 1);
  const start = taggedKey(state.prefix, TAG.head, front);
  const end = prefixEnd(start);
  const first = after.length === 0 ? start : later(start, behind(state.prefix, bucket, after));

  const changed: Head[] = [];
  state.eachDirty((head) => {
    const key = taggedKey(state.prefix, TAG.head, head.key);
    if (compareBytes(key, first) >= 0 && compareBytes(key, end) < 0) changed.push(head);
  });
  changed.sort((a, b) => compareBytes(a.key, b.key));
  let next = 0;
  let going = true;
  const visitChanged = (): void => {
    const head = changed[next++] as Head;
    going = visit(head.key, head, undefined);
  };
  state.tx.range(first, end, false, (key, value) => {
    const name = restOf(key);
    while (going && next < changed.length && compareBytes((changed[next] as Head).key, name) < 0) visitChanged();
    if (!going) return false;
    if (next < changed.length && compareBytes((changed[next] as Head).key, name) === 0) visitChanged();
    else going = visit(name, undefined, value);
    return going;
  });
  while (going && next < changed.length) visitChanged();
}

/** The key immediately after the stream `name`. */
function behind(group: number, bucket: Uint8Array, name: Uint8Array): Uint8Array {
  const rest = new Uint8Array(bucket.length + name.length + 2);
  rest.set(bucket);
  rest[bucket.length] = NUL;
  rest.set(name, bucket.length + 1);
  // The appended NUL makes it the immediate successor of the name's own key.
  return taggedKey(group, TAG.head, rest);
}

function later(a: Uint8Array, b: Uint8Array): Uint8Array {
  return compareBytes(a, b) >= 0 ? a : b;
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
