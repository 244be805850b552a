/** Bucket routes: create (a no-op), describe, delete when empty, list streams. */
import { NAME_BYTES_MAX } from '../../base/limits.ts';
import { nameBytes } from '../../protocol/names.ts';
import {
  type BucketRefusal,
  type ListedStreams,
  countStreams,
  deleteBucket,
  listStreams,
} from '../../tenants/bucket-streams.ts';
import { parseListQuery } from '../../protocol/query-string.ts';
import type { RequestContext } from '../request.ts';
import { grantOf } from '../scope-gate.ts';
import { listCovered } from '../../tenants/covered-streams.ts';

/** PUT: a bucket needs no making. Any body is ignored. */
export function handleCreateBucket(call: RequestContext): void {
  call.respond((res) => {
    call.responder.begin(res, 201);
    res.end();
    return 201;
  });
}

export function handleDescribeBucket(call: RequestContext): void {
  const { bucket } = call;
  call.keep();
  countStreams(call.gateway, bucket, (result) => {
    if (result.code !== 'OK') call.refuse(result.code, result.detail);
    else call.json(200, { bucket_id: bucket, streams: result.streams });
  });
}

export function handleDeleteBucket(call: RequestContext): void {
  call.keep();
  deleteBucket(call.gateway, call.bucket, (refused) => {
    if (refused !== undefined) call.refuse(refused.code, refused.detail);
    else call.empty(204);
  });
}

export function handleListStreams(call: RequestContext): void {
  const { bucket } = call;
  const parsed = parseListQuery(call.req.getQuery());
  if (!parsed.ok) return call.refuse('INVALID_QUERY', parsed.reason);
  const { prefix, after } = parsed.value;
  // Each makes a key of the store, whose size has an end; no name is longer than this.
  if (Math.max(nameBytes(bucket, prefix), nameBytes(bucket, after)) > NAME_BYTES_MAX) {
    const detail = `prefix and after may each take up to ${NAME_BYTES_MAX} bytes together with the bucket, as names do`;
    return call.refuse('INVALID_QUERY', detail);
  }
  call.keep();
  const answer = (page: BucketRefusal | ListedStreams): void => {
    if (page.code !== 'OK') return call.refuse(page.code, page.detail);
    const { streams, hasMore: has_more } = page;
    const next_cursor = has_more ? (streams.at(-1)?.stream_id ?? null) : null;
    return call.json(200, { bucket_id: bucket, prefix, stream_count: streams.length, streams, next_cursor, has_more });
  };
  const grant = grantOf(call.credentials);
  const wanted = { bucket, ...parsed.value };
  return grant === undefined
    ? listStreams(call.gateway, wanted, answer)
    : listCovered(call.gateway, grant, wanted, answer);
}
