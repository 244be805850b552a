/** The streams of a bucket: whether there are any, and their names. They live on all shards. */
import { compareText } from '../base/text.ts';
import { type Refused, callGroups, callShards, firstRefusal, resultsOf } from '../gateway/shard-client.ts';
import type { ShardGateway } from '../ports.ts';
import { COMMANDS, QUERIES } from '../protocol/operations.ts';
import type { ListRequest, ListedStream } from '../protocol/queries/summaries.ts';

/** A refusal as a shard gave it, or one that follows from all answers. */
export type BucketRefusal = Pick<Refused, 'code' | 'detail'>;

const NOT_FOUND: BucketRefusal = { code: 'BUCKET_NOT_FOUND', detail: '' };

/** Counts the streams of a bucket; refused when it does not exist. */
export function countStreams(
  gateway: ShardGateway,
  bucket: string,
  done: (result: BucketRefusal | { readonly code: 'OK'; readonly streams: number }) => void,
): void {
  callShards(gateway, QUERIES.bucket, { bucket }, (answers) => {
    const refused = firstRefusal(answers, 'BUCKET_NOT_FOUND');
    if (refused !== undefined) return done(refused);
    const parts = resultsOf(answers);
    const streams = parts.reduce((sum, part) => sum + part.streams, 0);
    return done(streams > 0 || parts.some((part) => part.exists) ? { code: 'OK', streams } : NOT_FOUND);
  });
}

/** Deletes an empty bucket. Counts first, so a bucket with streams loses no group's entry; each group checks again. */
export function deleteBucket(
  gateway: ShardGateway,
  bucket: string,
  done: (refused: BucketRefusal | undefined) => void,
): void {
  countStreams(gateway, bucket, (result) => {
    if (result.code !== 'OK') return done(result);
    if (result.streams > 0) return done({ code: 'BUCKET_NOT_EMPTY', detail: `${result.streams} streams` });
    return callGroups(gateway, COMMANDS.deleteBucket, { bucket }, (results) =>
      done(firstRefusal(results, 'BUCKET_NOT_FOUND')),
    );
  });
}

export interface ListedStreams {
  readonly code: 'OK';
  readonly streams: readonly ListedStream[];
  readonly hasMore: boolean;
}

/** Each shard lists its own streams in order, so the first `limit` of all are among the first of each. */
export function listStreams(
  gateway: ShardGateway,
  { limit, ...wanted }: ListRequest,
  done: (page: BucketRefusal | ListedStreams) => void,
): void {
  // One more than asked for tells whether there is a next page.
  callShards(gateway, QUERIES.list, { ...wanted, limit: limit + 1 }, (parts) => {
    const refused = firstRefusal(parts);
    if (refused !== undefined) return done(refused);
    const streams = resultsOf(parts).flat();
    streams.sort((left, right) => compareText(left.stream_id, right.stream_id));
    return done({ code: 'OK', streams: streams.slice(0, limit), hasMore: streams.length > limit });
  });
}
