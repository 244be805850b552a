/** Queries about all groups of a shard: listings, buckets, usage, state. */
import { NO_RESULT, query, type ResultCodec } from './operation.ts';
import { A, B, C } from './generic-fields.ts';

/** Totals over the groups of one shard. */
export interface BucketResult {
  readonly streams: number;
  readonly exists: boolean;
  /** Bytes that count towards its quota. */
  readonly retainedBytes: number;
  /** Its quota; -1: none. */
  readonly streamsMax: number;
  readonly retainedBytesMax: number;
}

const BUCKET_RESULT: ResultCodec<BucketResult> = {
  write(reply, { streams, exists, retainedBytes, streamsMax, retainedBytesMax }) {
    reply[A] = streams;
    reply[B] = exists ? 1 : 0;
    reply[C] = retainedBytes;
    reply.recordStart = streamsMax;
    reply.recordNext = retainedBytesMax;
  },
  read: (reply) => ({
    streams: reply[A],
    exists: reply[B] === 1,
    retainedBytes: reply[C],
    streamsMax: reply.recordStart,
    retainedBytesMax: reply.recordNext,
  }),
};

/** The rows of a page are the body, as JSON. */
export interface UsageResult {
  readonly hasMore: boolean;
}

const USAGE_RESULT: ResultCodec<UsageResult> = {
  write(reply, { hasMore }) {
    reply[A] = hasMore ? 1 : 0;
  },
  read: (reply) => ({ hasMore: reply[A] === 1 }),
};

/** Streams of a bucket in name order, after `after`. */
export const list = query({ number: 35, scope: 'shard', needsLeaders: true, duringImport: false, result: NO_RESULT });

/** State of a bucket. */
export const bucket = query({
  number: 36,
  scope: 'shard',
  needsLeaders: true,
  duringImport: false,
  result: BUCKET_RESULT,
});

/** The usage meter, page by page: key = the bucket after which to continue, maxRecords = how many (0: all). */
export const usage = query({
  number: 38,
  scope: 'shard',
  needsLeaders: false,
  duringImport: false,
  result: USAGE_RESULT,
});

/** Counters and Raft state of all groups of the shard, as JSON. */
export const status = query({
  number: 39,
  scope: 'control',
  needsLeaders: false,
  duringImport: true,
  result: NO_RESULT,
});
