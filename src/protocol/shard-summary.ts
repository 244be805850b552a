/** Queries about all groups of a shard: listings, buckets, usage, state. */
import { query, type ResultCodec } from './operation.ts';
import { type ResultOf, flagIn, numberIn, resultFields } from './frame-fields.ts';
import { A, AFTER, B, C, FLAGS, MAX_RECORDS, PREFIX } from './generic-fields.ts';
import { type RequestCodec, NOTHING_ASKED, nameStream } from './request.ts';
import {
  isArrayOf,
  isFlag,
  isMapOf,
  isNumber,
  isObjectOf,
  isOptional,
  isText,
  readJson,
  writeJson,
} from './json-result.ts';

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
const BUCKET_RESULT = resultFields({
  streams: numberIn(A),
  exists: flagIn(B),
  /** Bytes that count towards its quota. */
  retainedBytes: numberIn(C),
  /** Its quota; -1: none. */
  streamsMax: numberIn('recordStart'),
  retainedBytesMax: numberIn('recordNext'),
});

export type BucketResult = ResultOf<typeof BUCKET_RESULT>;

/** A bucket's meters on one shard, behind its name. */
export type UsageRow = readonly [
  name: string,
  appendBytes: number,
  records: number,
  writeUnits: number,
  retainedBytes: number,
  streamCount: number,
];

function isUsageRow(value: unknown): value is UsageRow {
  return Array.isArray(value) && value.length === 6 && isText(value[0]) && value.slice(1).every(isNumber);
}

const isUsagePage = isArrayOf(isUsageRow);

export interface UsageResult {
  readonly hasMore: boolean;
  readonly rows: readonly UsageRow[];
}

const USAGE_RESULT: ResultCodec<UsageResult> = {
  write(reply, { hasMore, rows }) {
    reply[A] = hasMore ? 1 : 0;
    writeJson(reply, rows);
  },
  read: (reply) => ({ hasMore: reply[A] === 1, rows: readJson(reply, isUsagePage) }),
};

/** A stream as `GET /{bucket}/streams` shows it. */
export interface ListedStream {
  readonly stream_id: string;
  readonly status: 'Open' | 'Closed';
  readonly content_type: string;
  readonly tail_offset: number;
  readonly created_at_ms: number;
  readonly last_write_at_ms: number;
}

const isListing = isArrayOf(
  isObjectOf<ListedStream>({
    stream_id: isText,
    status: (value): value is ListedStream['status'] => value === 'Open' || value === 'Closed',
    content_type: isText,
    tail_offset: isNumber,
    created_at_ms: isNumber,
    last_write_at_ms: isNumber,
  }),
);

/** In the order of their names. */
const LIST_RESULT: ResultCodec<readonly ListedStream[]> = {
  write: writeJson,
  read: (reply) => readJson(reply, isListing),
};

/** A group as its shard sees it. The node uses the named members; the metrics show all. */
export interface RaftGroup {
  readonly raft_group_id: number;
  readonly leader: number | null;
  readonly voter_ids: readonly number[];
  /** This node leads it, and the cold store rejects its bytes. */
  readonly cold_flush_failing?: boolean | undefined;
  /** This node recently gave up its leadership because nothing was committed. */
  readonly stalled?: boolean | undefined;
  /** Node -> HOST:PORT of its cluster plane, for those that joined while the cluster ran. */
  readonly member_addresses?: Readonly<Record<string, string>> | undefined;
  readonly [name: string]: unknown;
}

/** Counters are summed over shards and groups, members of per_group are kept by group. Other members are shown as they are. */
export interface StatusResult {
  readonly raft_groups?: readonly RaftGroup[] | undefined;
  readonly counters?: Readonly<Record<string, number>> | undefined;
  readonly per_core?: Readonly<Record<string, number>> | undefined;
  readonly per_group?: Readonly<Record<string, unknown>> | undefined;
  readonly [name: string]: unknown;
}

type NamedOfGroup = Pick<
  RaftGroup,
  'raft_group_id' | 'leader' | 'voter_ids' | 'cold_flush_failing' | 'stalled' | 'member_addresses'
>;

const isRaftGroup = isObjectOf<NamedOfGroup>({
  raft_group_id: isNumber,
  leader: (value): value is number | null => value === null || isNumber(value),
  voter_ids: isArrayOf(isNumber),
  cold_flush_failing: isOptional(isFlag),
  stalled: isOptional(isFlag),
  member_addresses: isOptional(isMapOf(isText)),
});

const isStatus = isObjectOf<Pick<StatusResult, 'raft_groups' | 'counters' | 'per_core' | 'per_group'>>({
  raft_groups: isOptional(isArrayOf(isRaftGroup)),
  counters: isOptional(isMapOf(isNumber)),
  per_core: isOptional(isMapOf(isNumber)),
  per_group: isOptional(isMapOf((value): value is unknown => value !== undefined)),
});

const STATUS_RESULT: ResultCodec<StatusResult> = {
  write: writeJson,
  read: (reply) => readJson(reply, isStatus),
};

/** Streams of a bucket in name order, after `after`. */
export const list = query({
  number: 35,
  scope: 'shard',
  needsLeaders: true,
  request: LIST_REQUEST,
  result: LIST_RESULT,
});

/** State of a bucket. */
export const bucket = query({
  number: 36,
  scope: 'shard',
  needsLeaders: true,
  request: BUCKET_REQUEST,
  result: BUCKET_RESULT,
});

/** The usage meter, page by page. */
export const usage = query({
  number: 38,
  scope: 'shard',
  needsLeaders: false,
  request: USAGE_REQUEST,
  result: USAGE_RESULT,
});

/** Counters and Raft state of all groups of the shard, as JSON. */
export const status = query({
  number: 39,
  scope: 'control',
  needsLeaders: false,
  request: NOTHING_ASKED,
  result: STATUS_RESULT,
});
