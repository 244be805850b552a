/** Bucket routes: create (a no-op), describe, delete when empty, list streams. Streams of a bucket live on all shards. */
import { NAME_BYTES_MAX } from '../../base/limits.ts';
import { nameBytes } from '../../protocol/names.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';
import { compareText } from '../../base/text.ts';
import { parseListQuery } from '../query.ts';
import type { RequestContext } from '../request.ts';
import { type ShardAnswer, callGroups, callShards, firstRefusal, resultsOf } from '../../gateway/shard-client.ts';
import type { BucketResult, ListedStream } from '../../protocol/queries/summaries.ts';

/** PUT: a bucket needs no making. Any body is ignored. */
export function handleCreateBucket(call: RequestContext): void {
  call.respond((res) => {
    call.responder.begin(res, 201);
    res.end();
    return 201;
  });
}

interface BucketState {
  readonly exists: boolean;
  readonly streams: number;
}

function bucketState(answers: readonly ShardAnswer<BucketResult>[]): BucketState {
  const parts = resultsOf(answers);
  const streams = parts.reduce((sum, part) => sum + part.streams, 0);
  const exists = parts.some((part) => part.exists);
  return { exists: exists || streams > 0, streams };
}

function askBucket({ gateway, bucket }: RequestContext, done: (answers: ShardAnswer<BucketResult>[]) => void): void {
  callShards(gateway, QUERIES.bucket, { bucket }, done);
}

/** Goes on with the number of its streams, if the bucket exists; otherwise the answer is given here. */
function withBucket(call: RequestContext, done: (streams: number) => void): void {
  call.keep();
  askBucket(call, (parts) => {
    const refused = firstRefusal(parts, 'BUCKET_NOT_FOUND');
    if (refused !== undefined) return call.refuse(refused.code, refused.detail);
    const { exists, streams } = bucketState(parts);
    return exists ? done(streams) : call.refuse('BUCKET_NOT_FOUND');
  });
}

export function handleDescribeBucket(call: RequestContext): void {
  withBucket(call, (streams) => call.json(200, { bucket_id: call.bucket, streams }));
}

/** Asked first, so that a bucket with streams loses no group's entry; each group checks once more. */
export function handleDeleteBucket(call: RequestContext): void {
  withBucket(call, (streams) => {
    if (streams > 0) return call.refuse('BUCKET_NOT_EMPTY', `${streams} streams`);
    return callGroups(call.gateway, COMMANDS.deleteBucket, { bucket: call.bucket }, (results) => {
      const refusal = firstRefusal(results, 'BUCKET_NOT_FOUND');
      if (refusal !== undefined) call.refuse(refusal.code, refusal.detail);
      else call.empty(204);
    });
  });
}

export function handleListStreams(call: RequestContext): void {
  const { bucket } = call;
  const parsed = parseListQuery(call.req.getQuery());
  if (!parsed.ok) return call.refuse('INVALID_QUERY', parsed.reason);
  const { prefix, after, limit } = parsed.value;
  // Each makes a key of the store, whose size has an end; no name is longer than this.
  if (Math.max(nameBytes(bucket, prefix), nameBytes(bucket, after)) > NAME_BYTES_MAX) {
    const detail = `prefix and after may each take up to ${NAME_BYTES_MAX} bytes together with the bucket, as names do`;
    return call.refuse('INVALID_QUERY', detail);
  }
  call.keep();
  // One more than asked for tells whether there is a next page.
  const asked = { bucket, prefix, after, limit: limit + 1 };
  return callShards(call.gateway, QUERIES.list, asked, (parts) => {
    const refused = firstRefusal(parts, 'BUCKET_NOT_FOUND');
    if (refused !== undefined) return call.refuse(refused.code, refused.detail);
    if (parts.every((part) => part.code === 'BUCKET_NOT_FOUND')) return call.refuse('BUCKET_NOT_FOUND');
    return call.guard(() => call.json(200, { bucket_id: bucket, prefix, ...mergeLists(parts, limit) }));
  });
}

/** Each shard lists its own streams in order, so the first `limit` of all are among the first of each. */
function mergeLists(parts: readonly ShardAnswer<readonly ListedStream[]>[], limit: number): Record<string, unknown> {
  const streams = resultsOf(parts).flat();
  streams.sort((left, right) => compareText(left.stream_id, right.stream_id));
  const page = streams.slice(0, limit);
  const more = streams.length > limit;
  const last = page.at(-1);
  return {
    stream_count: page.length,
    streams: page,
    next_cursor: more && last !== undefined ? last.stream_id : null,
    has_more: more,
  };
}
