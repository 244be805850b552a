/**
 * Frames main thread -> shard. A frame is a 16-byte head and either a command (see command.ts) or the parameters of a query.
 *
 *   0 op u8 | 1 flags u8 (1 = payload in the lane) | 2 group u16 | 4 slot u32 | 8 laneId u32 | 12 mark u32 (one of QUOTA_*)
 *  16 command, or query:
 *       READ          mode u8, flags u8, keyBytes u16, topic u32, value f64, maxBytes u32, maxRecords u32, key
 *       HEAD, ATTRS   keyBytes u16 at 18, key at 40 (same places as READ)
 *       LIST          limit u32 at 20, bucketBytes u16 at 18, prefixBytes u16 at 24, afterBytes u16 at 26, texts at 40
 *       BUCKET        flags u8 at 17, keyBytes u16 at 18, key at 40
 *       UNWATCH       topic u32 at 20
 *       SHED          mode u8 (1 = do not lead), value f64 (bits of shed.ts)
 *       USAGE         key = the bucket behind which to go on, maxRecords = how many (0: all)
 *       STATUS        nothing
 *       FORKS         maxRecords, maxBytes = how many errands and questions; topic, key, value = group, incarnation and token to go on from
 *
 * Queries about a whole shard carry group ALL_GROUPS. Little-endian.
 */
import { type CommandFields, commandBytesMax, newCommandFields, writeCommand } from './command.ts';
import { writeText } from '../base/text.ts';

/** Ops below 32 are replicated commands (command.ts). */
export const OP_READ = 32;
export const OP_HEAD = 33;
export const OP_GET_ATTRIBUTES = 34;
export const OP_LIST = 35;
export const OP_BUCKET = 36;
export const OP_UNWATCH = 37;
export const OP_USAGE = 38;
/** Counters and Raft state of all groups of the shard, as JSON. */
export const OP_STATUS = 39;

/** An operator's call about one group: mode = one of ADMIN_*, value = node or index (-1 none), key = voters as `1,2,3`, or a
 * learner's address (may be empty). */
export const OP_ADMIN = 40;
/** Whether this node may lead, for all groups of the shard: mode 1 = do not, 0 = normal; value = why (shed.ts), to be shown. */
export const OP_SHED = 41;
/**
 * The published snapshot of a stream: mode = one of SNAPSHOT_*, value = the offset asked for; maxBytes bytes of it from
 * maxRecords on (0: none, only what it is).
 */
export const OP_SNAPSHOT = 42;
/** Moves all bytes of one stream to the cold store, whatever their age. */
export const OP_FLUSH = 43;

export const ADMIN_SNAPSHOT = 1;
export const ADMIN_PURGE = 2;
export const ADMIN_LEARNER = 3;
export const ADMIN_TRANSFER = 4;
export const ADMIN_MEMBERSHIP = 5;
export const ADMIN_ALLOW_REVERT = 6;
export const ADMIN_FORGET_LEARNER = 7;

/** Objects of one bucket (the key) that a group is to delete: up to maxRecords of them. */
export const OP_BUCKET_GC = 44;

/** A backup of a group (shard/exports.ts): mode = one of EXPORT_*, value = the number of the export, but for OPEN. */
export const OP_EXPORT = 45;
export const EXPORT_OPEN = 1;
export const EXPORT_HOLD = 2;
export const EXPORT_CLOSE = 3;

/**
 * What subscriptions follow in a group (group/observer.ts): mode = one of OBSERVE_*, key = a stream, or a pattern in place of the
 * bucket; events go to the topic.
 */
export const OP_OBSERVE = 46;
export const OBSERVE_NAME = 1;
export const OBSERVE_FORGET_NAME = 2;
export const OBSERVE_PATTERN = 3;
export const OBSERVE_FORGET_PATTERN = 4;

/** What the leader of the groups of this shard is to do for forks (forks/state/outbox.ts), as JSON. */
export const OP_FORKS = 47;

/** The one at `value`; the latest; the latest, or the stream alone when there is none. */
export const SNAPSHOT_AT = 0;
export const SNAPSHOT_LATEST = 1;
export const SNAPSHOT_ANY = 2;

export const ALL_GROUPS = 0xffff;
export const REQUEST_HEAD_BYTES = 16;
export const REQUEST_FLAG_LANE = 1;
const QUERY_BYTES = 40;

/** The sender says nothing, as nodes of the version before, or has found that it fits: the group's own part of the quota holds. */
export const QUOTA_UNMARKED = 0;
/** It does not fit: the leader refuses it if it would bring anything. */
export const QUOTA_OVER = 1;
/** The sender knows of no quota: the leader refuses it if there is one and it would bring anything. */
export const QUOTA_UNKNOWN = 2;

/** The mark of the command that lies at `at`, behind the head of its frame. */
export function quotaMark(view: DataView, at: number): number {
  return at >= REQUEST_HEAD_BYTES ? view.getUint32(at - 4, true) : QUOTA_UNMARKED;
}

/** Where a read starts. */
export const READ_OFFSET = 0;
/** At the current tail: no bytes, the tail as next offset. */
export const READ_NOW = 1;
export const READ_RECORD = 2;
export const READ_RECORD_NOW = 3;
export const READ_TAIL_RECORDS = 4;

/** Records come as {"record":n,"value":...}, still inside a JSON array. */
export const READ_FLAG_ENVELOPE = 1;
/** Do not renew the stream's sliding lifetime: a re-read for a reader that is connected and was counted already. */
export const READ_FLAG_NO_TOUCH = 2;
/**
 * The body is count u32, the end of each message or record (u32, relative to the bytes), then the stored bytes (records with
 * their \n). A byte stream's answer holds whole messages then, as a JSON stream's always holds whole records.
 */
export const READ_FLAG_PARTS = 4;
/** BUCKET: in a moment with what this node has, if the leaders have not confirmed it by then. Somebody waits who has no use for them. */
export const BUCKET_FLAG_SOON = 1;

/** What a caller fills in for any request; reused, so set every field that the op reads (see newRequest). */
export interface Request {
  /** Commands: one of QUOTA_*. What would bring nothing is answered as ever. Older leaders take no notice. */
  quotaMark: number;
  op: number;
  group: number;
  /** For commands: everything. For queries only bucket and stream are read from here. */
  readonly command: CommandFields;
  /** READ: one of READ_*. */
  mode: number;
  /** READ: offset, record ordinal or count, by mode. */
  value: number;
  /** READ: 0 = the server's own bound only. */
  maxBytes: number;
  /** READ: 0 = unlimited. */
  maxRecords: number;
  readFlags: number;
  /**
   * READ: non-zero subscribes the topic to the stream's tail events, atomically with the read, when the read succeeds
   * (code OK) and the stream is not closed at the returned position. UNWATCH: the topic to end.
   */
  topic: number;
  /** LIST */
  prefix: string;
  after: string;
  limit: number;
}

export function newRequest(): Request {
  return {
    quotaMark: QUOTA_UNMARKED,
    op: 0,
    group: 0,
    command: newCommandFields(),
    mode: READ_OFFSET,
    value: 0,
    maxBytes: 0,
    maxRecords: 0,
    readFlags: 0,
    topic: 0,
    prefix: '',
    after: '',
    limit: 0,
  };
}

/** Upper bound of the frame's size in bytes. */
export function requestBytesMax(request: Request): number {
  const texts = request.prefix.length + request.after.length;
  return REQUEST_HEAD_BYTES + QUERY_BYTES + commandBytesMax(request.command) + 3 * texts;
}

/** Writes the frame at `offset`; returns its size. laneId 0 = payload inside. */
export function writeRequest(
  request: Request,
  slot: number,
  laneId: number,
  bytes: Uint8Array,
  view: DataView,
  offset: number,
): number {
  bytes[offset] = request.op;
  bytes[offset + 1] = laneId === 0 ? 0 : REQUEST_FLAG_LANE;
  view.setUint16(offset + 2, request.group, true);
  view.setUint32(offset + 4, slot, true);
  view.setUint32(offset + 8, laneId, true);
  view.setUint32(offset + 12, request.quotaMark, true);
  if (request.op < OP_READ) {
    const size = writeCommand(request.command, bytes, view, offset + REQUEST_HEAD_BYTES, laneId !== 0);
    return REQUEST_HEAD_BYTES + size;
  }
  return writeQuery(request, bytes, view, offset);
}

function writeQuery(request: Request, bytes: Uint8Array, view: DataView, offset: number): number {
  const { bucket, stream } = request.command;
  let at = offset + QUERY_BYTES;
  at += writeText(bytes, at, bucket);
  if (stream !== '') {
    bytes[at++] = 0;
    at += writeText(bytes, at, stream);
  }
  bytes[offset + 16] = request.mode;
  bytes[offset + 17] = request.readFlags;
  view.setUint16(offset + 18, at - offset - QUERY_BYTES, true);
  if (request.op === OP_LIST) {
    view.setUint32(offset + 20, request.limit, true);
    const prefix = writeText(bytes, at, request.prefix);
    const after = writeText(bytes, at + prefix, request.after);
    view.setUint16(offset + 24, prefix, true);
    view.setUint16(offset + 26, after, true);
    return at + prefix + after - offset;
  }
  view.setUint32(offset + 20, request.topic, true);
  view.setFloat64(offset + 24, request.value, true);
  view.setUint32(offset + 32, request.maxBytes, true);
  view.setUint32(offset + 36, request.maxRecords, true);
  return at - offset;
}

/** Takes the subscription out of a READ frame that asks for one of `topics`. */
export function clearTopic(frame: Uint8Array, topics: ReadonlySet<number>): void {
  if (frame[0] !== OP_READ) return;
  const view = new DataView(frame.buffer, frame.byteOffset);
  if (topics.has(view.getUint32(20, true))) view.setUint32(20, 0, true);
}

/** A query in place, on the shard's side. Reused; valid until the next read. */
export class Query {
  bytes: Uint8Array = new Uint8Array(0);
  op = 0;
  mode = 0;
  flags = 0;
  keyAt = 0;
  keyBytes = 0;
  topic = 0;
  value = 0;
  maxBytes = 0;
  maxRecords = 0;
  limit = 0;
  prefixAt = 0;
  prefixBytes = 0;
  afterAt = 0;
  afterBytes = 0;

  read(bytes: Uint8Array, view: DataView, offset: number): void {
    this.bytes = bytes;
    this.op = bytes[offset] as number;
    this.mode = bytes[offset + 16] as number;
    this.flags = bytes[offset + 17] as number;
    this.keyAt = offset + QUERY_BYTES;
    this.keyBytes = view.getUint16(offset + 18, true);
    if (this.op === OP_LIST) {
      this.limit = view.getUint32(offset + 20, true);
      this.prefixAt = this.keyAt + this.keyBytes;
      this.prefixBytes = view.getUint16(offset + 24, true);
      this.afterAt = this.prefixAt + this.prefixBytes;
      this.afterBytes = view.getUint16(offset + 26, true);
      return;
    }
    this.topic = view.getUint32(offset + 20, true);
    this.value = view.getFloat64(offset + 24, true);
    this.maxBytes = view.getUint32(offset + 32, true);
    this.maxRecords = view.getUint32(offset + 36, true);
  }
}
