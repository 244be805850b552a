/** Queries about all groups of a shard: listings, buckets, usage, state. */
import { NO_RESULT, query, type ResultCodec } from './operation.ts';
import { A, AFTER, B, C, FLAGS, MAX_RECORDS, PREFIX } from './generic-fields.ts';
import { type RequestCodec, NOTHING_ASKED, nameStream } from './request.ts';

export interface ListRequest {
  readonly bucket: string;
  readonly prefix: string;
  readonly after: string;
  readonly limit: number;
}

/** Names as bytes, in whose order streams are listed. */
interface ListView {
  readonly bucket: Uint8Array;
  readonly prefix: Uint8Array;
  readonly after: Uint8Array;
  readonly limit: number;
}

const LIST_REQUEST: RequestCodec<ListRequest, ListView> = {
  write(request, { bucket, prefix, after, limit }) {
    nameStream(request, { bucket, stream: '' });
    request[PREFIX] = prefix;
    request[AFTER] = after;
    request[MAX_RECORDS] = limit;
  },
  read: (query) => ({
    bucket: query.key(),
    prefix: query[PREFIX](),
    after: query[AFTER](),
    limit: query[MAX_RECORDS],
  }),
};

const SOON = 1;

export interface BucketRequest {
  readonly bucket: string;
  /** In a moment with what this node has, if the leaders have not confirmed it by then: a writer waits for the answer. */
  readonly isSoon?: boolean;
}

const BUCKET_REQUEST: RequestCodec<BucketRequest, { readonly isSoon: boolean }> = {
  write(request, { bucket, isSoon = false }) {
    nameStream(request, { bucket, stream: '' });
    request[FLAGS] = isSoon ? SOON : 0;
  },
  read: (query) => ({ isSoon: (query[FLAGS] & SOON) !== 0 }),
};

export interface UsageRequest {
  /** The bucket behind which the page begins. */
  readonly after: string;
  /** Rows, or a few more; 0: all. */
  readonly limit: number;
}

const USAGE_REQUEST: RequestCodec<UsageRequest, { readonly after: Uint8Array; readonly limit: number }> = {
  write(request, { after, limit }) {
    nameStream(request, { bucket: after, stream: '' });
    request[MAX_RECORDS] = limit;
  },
  read: (query) => ({ after: query.key(), limit: query[MAX_RECORDS] }),
};

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
export const list = query({
  number: 35,
  scope: 'shard',
  needsLeaders: true,
  duringImport: false,
  request: LIST_REQUEST,
  result: NO_RESULT,
});

/** State of a bucket. */
export const bucket = query({
  number: 36,
  scope: 'shard',
  needsLeaders: true,
  duringImport: false,
  request: BUCKET_REQUEST,
  result: BUCKET_RESULT,
});

/** The usage meter, page by page. */
export const usage = query({
  number: 38,
  scope: 'shard',
  needsLeaders: false,
  duringImport: false,
  request: USAGE_REQUEST,
  result: USAGE_RESULT,
});

/** Counters and Raft state of all groups of the shard, as JSON. */
export const status = query({
  number: 39,
  scope: 'control',
  needsLeaders: false,
  duringImport: true,
  request: NOTHING_ASKED,
  result: NO_RESULT,
});
