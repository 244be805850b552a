/** Queries about all groups of a shard: listings, buckets, usage, state, pending fork work. */
import { asks, query, says } from '../operation.ts';
import type { ListQuery } from '../query-string.ts';

export interface ListRequest extends ListQuery {
  readonly bucket: string;
}

/** A stream as `GET /{bucket}/streams` shows it. */
export interface ListedStream {
  readonly stream_id: string;
  readonly status: 'Open' | 'Closed';
  readonly content_type: string;
  readonly tail_offset: number;
  readonly created_at_ms: number;
  readonly last_write_at_ms: number;
}

/** Streams of a bucket in name order, after `after`. */
export const list = query({
  number: 35,
  scope: 'shard',
  needsLeaders: true,
  request: asks<ListRequest>(),
  result: says<readonly ListedStream[]>(),
});

export interface BucketRequest {
  readonly bucket: string;
  /** Answers soon with what this node has, if the leaders have not confirmed by then: a writer waits for the answer. */
  readonly isSoon?: boolean;
  /** Counts all that quotas count, also where the bucket has no quota of its own. */
  readonly countsAll?: boolean;
}

/** Totals over the groups of one shard. */
export interface BucketResult {
  readonly streams: number;
  readonly exists: boolean;
  /** Bytes that count towards its quota. */
  readonly retainedBytes: number;
  /** The bucket's quota; -1: none. */
  readonly streamsMax: number;
  readonly retainedBytesMax: number;
}

/** State of a bucket in the groups of one shard. */
export const bucket = query({
  number: 36,
  scope: 'shard',
  needsLeaders: true,
  request: asks<BucketRequest>(),
  result: says<BucketResult>(),
});

export interface UsageRequest {
  /** The bucket behind which the page begins. */
  readonly after: string;
  /** Rows, or a few more; 0: all. */
  readonly limit: number;
  /** These buckets at once, in place of a page. */
  readonly names?: readonly string[];
}

/** A bucket's meters on one shard, behind its name. */
export type UsageRow = readonly [
  name: string,
  appendBytes: number,
  records: number,
  writeUnits: number,
  retainedBytes: number,
  streamCount: number,
];

export interface UsageResult {
  readonly hasMore: boolean;
  readonly rows: readonly UsageRow[];
}

/** The usage meter, page by page. */
export const usage = query({
  number: 38,
  scope: 'shard',
  needsLeaders: false,
  request: asks<UsageRequest>(),
  result: says<UsageResult>(),
});

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

/** Counters are summed over shards and groups, members of per_group are kept by group. Others are shown as they are. */
export interface StatusResult {
  readonly raft_groups?: readonly RaftGroup[] | undefined;
  readonly counters?: Readonly<Record<string, number>> | undefined;
  readonly per_core?: Readonly<Record<string, number>> | undefined;
  readonly per_group?: Readonly<Record<string, unknown>> | undefined;
  readonly [name: string]: unknown;
}

/** Counters and Raft state of all groups of the shard. */
export const status = query({
  number: 39,
  scope: 'control',
  needsLeaders: false,
  request: asks<undefined>(),
  result: says<StatusResult>(),
});

export interface ForksRequest {
  /** Notifications from this token on, which is drawn: there may be more than fits, and none of it can be done now. */
  readonly fromToken: number;
  readonly notificationsMax: number;
  readonly pinChecksMax: number;
  /** Where the pin checks of the shard go on. */
  readonly place: PinPlace;
}

export interface PinPlace {
  readonly group: number;
  readonly incarnation: number;
  readonly token: number;
}

/** The source of a fork that is gone, which was not told yet. `source` is a key: bucket, NUL, stream. */
export interface PendingNotification {
  readonly token: number;
  readonly source: string;
}

/** A pin whose fork may be gone. `fork` is a key like `source`. */
export interface PinCheck extends PendingNotification {
  readonly fork: string;
  readonly incarnation: number;
}

export interface ForksResult {
  readonly pendingNotifications: readonly (PendingNotification & { readonly group: number })[];
  readonly pinChecks: readonly (PinCheck & { readonly group: number })[];
}

/** Pending fork work of the groups that this shard leads (stream/forks/pin.ts). */
export const forks = query({
  number: 47,
  scope: 'shard',
  needsLeaders: false,
  request: asks<ForksRequest>(),
  result: says<ForksResult>(),
});
