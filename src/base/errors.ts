/**
 * The one table of refusals: code -> status on the bucketed routes, status on the flat routes, whether the same request
 * may succeed when repeated, and a sentence for the human reader of the body. Numbers for frames: error-numbers.ts.
 */
import { NUMBERED } from './error-numbers.ts';

export interface ErrorRow {
  /** Status on /{bucket}/{stream}, the service's own routes. */
  readonly bucketed: number;
  /** Status on /v1/stream/{path} (the public protocol wins there). */
  readonly flat: number;
  /** Answered with Retry-After: 1; a rate limit says how long. */
  readonly retry: boolean;
  readonly text: string;
}

const row = (status: number, text: string, retry = false, flat = status): ErrorRow => ({
  bucketed: status,
  flat,
  retry,
  text,
});

export type ErrorCode = (typeof NUMBERED)[number];

export const ERRORS: Readonly<Record<ErrorCode, ErrorRow>> = {
  OK: row(200, 'ok'),
  // Faults of the request itself.
  INVALID_NAME: row(400, 'the bucket or stream name is not usable'),
  INVALID_HEADER: row(400, 'a request header is malformed'),
  INVALID_QUERY: row(400, 'a query parameter is malformed'),
  INVALID_JSON: row(400, 'the body is not valid JSON'),
  EMPTY_JSON_ARRAY: row(400, 'an empty JSON array holds no record; send at least one value'),
  EMPTY_BODY: row(400, 'the body is empty; send bytes, or Stream-Closed: true to close the stream'),
  MISSING_CONTENT_TYPE: row(400, 'Content-Type is required when the body is not empty'),
  INVALID_ATTRIBUTES: row(400, 'the attributes are not a JSON object of the right shape or exceed 16 KiB'),
  PRODUCER_INCOMPLETE: row(400, 'Producer-Id, Producer-Epoch and Producer-Seq must be sent together'),
  PRODUCER_EPOCH_START: row(400, 'a new producer epoch must start with Producer-Seq 0'),
  RECORD_MATCH_WITHOUT_RECORDS: row(
    400,
    'Stream-Record-Match needs a JSON stream; this stream has no record coordinates',
  ),
  RECORDS_UNAVAILABLE: row(400, 'record, tail_records and record_view need a JSON stream; this stream has no records'),
  RECORD_OUT_OF_RANGE: row(400, 'the record ordinal lies beyond the tail; see Stream-Record-Next'),
  OFFSET_INSIDE_RECORD: row(400, 'the offset lies inside a JSON record; read from an offset that the server returned'),
  BODY_TOO_LARGE: row(413, 'the body exceeds 32 MiB; split it into several appends'),
  INVALID_BATCH: row(400, 'the body is not a batch: frames of four bytes of length, big-endian, and that many bytes'),
  TOO_MANY_FRAMES: row(413, 'the batch holds more than 512 frames; split it into several batches'),
  TOO_MANY_RECORDS: row(413, 'the JSON array holds more than 100,000 records; split it into several appends'),
  UNAUTHORIZED: row(401, 'a valid bearer token is required'),
  CLIENT_CERTIFICATE_REQUIRED: row(403, 'this plane takes requests with a valid client certificate only'),
  INSUFFICIENT_SCOPE: row(403, 'the token does not allow that'),
  CONTENT_ENCODING: row(415, 'bodies are taken as they are, without Content-Encoding'),
  UNSUPPORTED_MEDIA_TYPE: row(415, 'Content-Type must be application/json'),
  INVALID_QUOTA: row(
    422,
    'a quota is {"max_streams": N, "max_retained_bytes": N}, whole numbers or null, both optional',
  ),
  INVALID_POSITION: row(400, 'the position is malformed'),
  ROUTE_NOT_FOUND: row(404, 'no such route'),
  HOST_NOT_ALLOWED: row(421, 'the request is for a host that this plane does not know'),
  ORIGIN_NOT_ALLOWED: row(403, 'web pages of this origin may not do that'),
  UPGRADE_REQUIRED: row(426, 'sessions are WebSockets; send a request that asks for an upgrade to one'),
  METHOD_NOT_ALLOWED: row(405, 'the method is not supported here; see Allow'),
  // Conflicts with the state.
  BUCKET_NOT_FOUND: row(404, 'bucket not found'),
  STREAM_NOT_FOUND: row(404, 'stream not found'),
  STREAM_GONE: row(410, 'the position lies below the retention floor; see Stream-Next-Offset'),
  STREAM_DELETED: row(410, 'the stream was deleted; forks of it live, and its name is free when they are gone'),
  NAME_HELD: row(
    409,
    'the stream of this name was deleted while forks of it live; the name is free when they are gone',
  ),
  FORK_SOURCE_NOT_FOUND: row(404, 'the stream that Stream-Forked-From names does not exist'),
  FORK_SOURCE_DELETED: row(409, 'the stream that Stream-Forked-From names was deleted; only forks of it live'),
  FORK_BEYOND_TAIL: row(400, 'Stream-Fork-Offset lies beyond the tail of the source; see Stream-Next-Offset'),
  FORK_SUB_OFFSET_BEYOND: row(
    400,
    'Stream-Fork-Sub-Offset lies beyond the next message, or the records, of the source',
  ),
  FORK_TYPE_MISMATCH: row(409, "Content-Type differs from the source's; leave it out to inherit it"),
  CREATE_CONFLICT: row(
    409,
    'the stream exists with a different content type, closed state, retention, attributes or source',
  ),
  CONTENT_TYPE_MISMATCH: row(400, "Content-Type differs from the stream's", false, 409),
  STREAM_CLOSED: row(409, 'the stream is closed; nothing can be appended'),
  SEQ_CONFLICT: row(
    409,
    'Sequence conflict: Stream-Seq must be lexicographically greater than the last accepted value',
  ),
  EXPECTED_OFFSET_CONFLICT: row(
    409,
    'Expected offset conflict: the tail differs from Stream-Expected-Offset; see Stream-Next-Offset',
  ),
  PRODUCER_EPOCH_STALE: row(
    409,
    'Producer-Epoch is lower than the last accepted epoch; see Producer-Epoch',
    false,
    403,
  ),
  PRODUCER_SEQ_CONFLICT: row(409, 'Producer-Seq is not the expected one; see Producer-Expected-Seq'),
  RECORD_PRECONDITION_FAILED: row(412, 'the record tail differs from Stream-Record-Match; see Stream-Record-Next'),
  PRECONDITION_FAILED: row(412, 'the stream is not in a state that If-Match or If-None-Match allows'),
  POSITION_INSIDE_MESSAGE: row(
    400,
    'the position is not where a message or record begins; see Stream-Next-Offset of its write',
  ),
  SNAPSHOT_NOT_FOUND: row(404, 'no snapshot is published at this offset'),
  SNAPSHOT_BEYOND_TAIL: row(409, 'the offset lies beyond the tail; see Stream-Next-Offset'),
  SNAPSHOT_MISMATCH: row(409, 'Stream-Snapshot-Match differs from the digest of the published snapshot'),
  SNAPSHOT_STALE: row(409, 'a snapshot of a later offset is published already'),
  SNAPSHOT_CONFLICT: row(409, 'another snapshot of this offset is published already'),
  SNAPSHOT_IN_USE: row(409, 'the published snapshot cannot be deleted; publish a later one in its place'),
  RETENTION_BACKWARDS: row(409, 'the retention floor is higher already and never falls'),
  RETENTION_BEYOND_SNAPSHOT: row(409, 'the retention floor cannot pass the published snapshot; publish one first'),
  BORDER_UNCHECKED: row(503, 'the stream is being flushed to the cold store; retry', true),
  OFFSET_OUT_OF_RANGE: row(416, 'the offset lies beyond the tail; see Stream-Next-Offset'),
  GROUP_NOT_EMPTY: row(409, 'the group holds buckets already; a backup goes into an empty cluster'),
  IMPORT_LOST: row(409, 'another import of this group took over'),
  BUCKET_NOT_EMPTY: row(409, 'the bucket still holds streams; delete them first'),
  QUOTA_EXCEEDED: row(429, "the bucket's quota is used up"),
  QUOTA_UNKNOWN: row(503, 'this node has just learnt that the bucket has a quota; nothing was written; retry', true),
  // Temporary limits of the node. A repeat may succeed.
  SHARD_BUSY: row(503, 'the shard takes no more for now: its mailbox is full, or its disk is too slow; retry', true),
  INFLIGHT_FULL: row(503, 'too many request bodies are in flight on this node; retry', true),
  ANSWERS_FULL: row(503, 'too many answers wait for slow clients on this node; retry', true),
  SESSIONS_FULL: row(503, 'too many sessions are open on this node; retry', true),
  TOKEN_FAILURES: row(429, 'too many wrong tokens came from this address, so this one was not looked at; retry', true),
  RATE_LIMITED: row(429, 'more came than the limits allow; retry after the time in Retry-After', true),
  READERS_LIMITED: row(429, 'more live readers came than the limits allow; retry', true),
  SESSION_FULL: row(429, 'the session has as much under way as it may; wait for answers, then retry', true),
  WATCHERS_FULL: row(503, 'too many live readers wait on this core; retry', true),
  NO_LEADER: row(503, 'no leader is known for the group of this stream; retry', true),
  CATCHING_UP: row(503, 'this node has not caught up since its start and could show less than it did; retry', true),
  OUTCOME_UNKNOWN: row(
    503,
    'the write was not confirmed in time and may still be applied; retry with producer headers',
    true,
  ),
  DISK_FULL: row(507, 'the disk of this node is full; nothing was written; retry after space is freed', true),
  STOPPING: row(503, 'the server is stopping; retry', true),
  BACKPRESSURE: row(503, 'more bytes wait for the cold store than this group may hold; retry', true),
  COLD_UNAVAILABLE: row(503, 'the cold store does not answer; retry', true),
  COLD_READS_FULL: row(503, 'too many reads wait for the cold store on this node; retry', true),
  COLD_OBJECT_BAD: row(
    502,
    'an object in the cold store is missing, truncated, altered, or encrypted for a key that is not here',
  ),
  COLD_WRITE_FAILED: row(502, 'the cold store did not take an object from this node; the answer says why'),
  NO_COLD_STORE: row(503, 'no cold store is configured on this node'),
  GROUP_IMPORTING: row(503, 'a backup is being restored into the group of this stream; retry', true),
  FORK_FORMING: row(503, 'a fork is being made under this name; retry', true),
  FORK_LOST: row(503, 'the fork was abandoned, or another request creates it now; retry', true),
  FORK_SOURCE_MOVED: row(503, 'the source of the fork was trimmed or made again meanwhile; retry', true),
  FORKS_FULL: row(503, 'too many forks are being made on this node; retry', true),
  IMPORT_RUNNING: row(503, 'another import of this group is under way; retry', true),
  EXPORTS_FULL: row(503, 'too many exports run on this core; retry', true),
  LEADER_BUSY: row(
    503,
    'too many bytes wait on this node for the leader of the group of this stream; nothing was written; retry',
    true,
  ),
  UNCONFIRMED: row(
    503,
    'it is not here, and no leader confirmed in time that it is nowhere; retry, or ask another node',
    true,
  ),
  NOT_APPLIED: row(
    503,
    'it is not here yet: this node has not applied all that the cluster has committed; retry, or ask another node',
    true,
  ),
  UPGRADE_UNFINISHED: row(
    503,
    'conditional writes need every node of the cluster in a version that knows them; upgrade all, then retry',
    true,
  ),
  ROW_DAMAGED: row(
    503,
    'the disk of this node changed a row that this needs, and it is not used; ask another node, or restore a backup',
    true,
  ),
  UNCOMMITTED_FULL: row(503, 'too many bytes of this group wait for a majority of the nodes; retry', true),
  INTERNAL: row(500, 'internal error'),
  // Refusals with a sentence of their own.
  INVALID_REQUEST: row(400, 'the request is malformed'),
  FORBIDDEN: row(403, 'that is not allowed'),
  NOT_FOUND: row(404, 'not found'),
  CONFLICT: row(409, 'the request does not fit the present state'),
  UNAVAILABLE: row(503, 'the node cannot do that at the moment; retry', true),
};

/** At most one per status. */
const GENERAL = ['INVALID_REQUEST', 'FORBIDDEN', 'NOT_FOUND', 'CONFLICT', 'BODY_TOO_LARGE', 'UNAVAILABLE'] as const;
const generalCodes: ReadonlyMap<number, ErrorCode> = new Map(GENERAL.map((code) => [ERRORS[code].bucketed, code]));

/** The code of a refusal with this status whose sentence is not in the table. */
export function generalCode(status: number): ErrorCode {
  return generalCodes.get(status) ?? 'INTERNAL';
}

const INTERNAL = NUMBERED.indexOf('INTERNAL');
const numbers: ReadonlyMap<ErrorCode, number> = new Map(NUMBERED.map((name, index) => [name, index]));

/** Number of a code for a mailbox frame. OK is 0. */
export function errorNumber(code: ErrorCode): number {
  return numbers.get(code) ?? INTERNAL;
}

/** The code behind a number read from a mailbox frame; INTERNAL for anything unknown. */
export function errorCode(number: number): ErrorCode {
  return NUMBERED[number] ?? 'INTERNAL';
}

/** Why a request is refused: the code, and the words behind the code's own sentence. */
export interface RefusalReason {
  readonly code: ErrorCode;
  readonly detail: string;
}

/** A refusal thrown as an exception at the edges. The pure core returns codes instead. */
export class MillraceError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, detail?: string, options?: ErrorOptions) {
    super(detail === undefined ? ERRORS[code].text : `${ERRORS[code].text}: ${detail}`, options);
    this.name = 'MillraceError';
    this.code = code;
  }
}
