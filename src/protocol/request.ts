/**
 * Frames main thread -> shard. A frame is a 16-byte head and either a command (see command.ts) or the parameters of a query.
 *
 *   0 op u8 | 1 flags u8 (1 = payload in the transfer channel) | 2 group u16 | 4 slot u32 | 8 transferId u32 | 12 mark u32 (one of QUOTA_*)
 *  16 command, or query: mode u8, flags u8, keyBytes u16, topic u32, value f64, maxBytes u32, maxRecords u32, prefixBytes u16,
 *     afterBytes u16, key, prefix, after. What they mean says the operation (operations.ts).
 *
 * Queries about a whole shard carry group ALL_GROUPS. Little-endian.
 */
import { byteAt } from '../base/bytes.ts';
import { type CommandFields, commandBytesMax, newCommandFields, writeCommand } from './command.ts';
import { writeText } from '../base/text.ts';
import { FIRST_QUERY_NUMBER } from './operation.ts';

export const ADMIN_SNAPSHOT = 1;
export const ADMIN_PURGE = 2;
export const ADMIN_LEARNER = 3;
export const ADMIN_TRANSFER = 4;
export const ADMIN_MEMBERSHIP = 5;
export const ADMIN_ALLOW_REVERT = 6;
export const ADMIN_FORGET_LEARNER = 7;

export const EXPORT_OPEN = 1;
export const EXPORT_HOLD = 2;
export const EXPORT_CLOSE = 3;

export const OBSERVE_NAME = 1;
export const OBSERVE_FORGET_NAME = 2;
export const OBSERVE_PATTERN = 3;
export const OBSERVE_FORGET_PATTERN = 4;

/** The one at `value`; the latest; the latest, or just the stream when there is none. */
export const SNAPSHOT_AT = 0;
export const SNAPSHOT_LATEST = 1;
export const SNAPSHOT_ANY = 2;

export const ALL_GROUPS = 0xffff;
export const REQUEST_HEAD_BYTES = 16;
export const REQUEST_FLAG_TRANSFERRED = 1;
const QUERY_BYTES = 44;

/**
 * The sender makes no statement, as in the previous version, or has found that it fits: the group's own share of the
 * quota applies.
 */
export const QUOTA_UNMARKED = 0;
/** It does not fit: the leader refuses it if it would add anything. */
export const QUOTA_OVER = 1;
/** The sender knows of no quota: the leader refuses it if there is one and it would add anything. */
export const QUOTA_UNKNOWN = 2;

/** The mark of the command at `at`, after the header of its frame. */
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

/** Records are returned as {"record":n,"value":...}, still inside a JSON array. */
export const READ_FLAG_ENVELOPE = 1;
/** Do not renew the stream's sliding lifetime: a repeated read for a connected reader that was already counted. */
export const READ_FLAG_NO_TOUCH = 2;
/**
 * The body is count u32, the end of each message or record (u32, relative to the bytes), then the stored bytes (records
 * with their \n). A byte stream's answer then holds complete messages, as a JSON stream's always holds complete
 * records.
 */
export const READ_FLAG_PARTS = 4;
/**
 * BUCKET: answered soon with this node's state if the leaders have not confirmed it by then, because a write waits for
 * it.
 */
export const BUCKET_FLAG_SOON = 1;

/** The fields of any request; reused, so set every field that the op reads (see newRequest). */
export interface Request {
  /** Commands: one of QUOTA_*. A command that adds nothing is answered as usual. Older leaders ignore it. */
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
  };
}

/** For an operation without parameters. */
export const NO_PARAMETERS = (): void => undefined;

/** Sets the operation of a request; a command repeats it in its own header. */
export function setOperation(request: Request, { number }: { readonly number: number }): void {
  request.op = number;
  request.command.kind = number < FIRST_QUERY_NUMBER ? number : 0;
}

/** Upper bound of the frame's size in bytes. */
export function requestBytesMax(request: Request): number {
  const texts = request.prefix.length + request.after.length;
  return REQUEST_HEAD_BYTES + QUERY_BYTES + commandBytesMax(request.command) + 3 * texts;
}

/** Writes the frame at `offset`; returns its size. transferId 0 = payload inside. */
export function writeRequest(
  request: Request,
  slot: number,
  transferId: number,
  bytes: Uint8Array,
  view: DataView,
  offset: number,
): number {
  bytes[offset] = request.op;
  bytes[offset + 1] = transferId === 0 ? 0 : REQUEST_FLAG_TRANSFERRED;
  view.setUint16(offset + 2, request.group, true);
  view.setUint32(offset + 4, slot, true);
  view.setUint32(offset + 8, transferId, true);
  view.setUint32(offset + 12, request.quotaMark, true);
  if (request.op < FIRST_QUERY_NUMBER) {
    const size = writeCommand(request.command, bytes, view, offset + REQUEST_HEAD_BYTES, transferId !== 0);
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
  view.setUint32(offset + 20, request.topic, true);
  view.setFloat64(offset + 24, request.value, true);
  view.setUint32(offset + 32, request.maxBytes, true);
  view.setUint32(offset + 36, request.maxRecords, true);
  const prefix = request.prefix === '' ? 0 : writeText(bytes, at, request.prefix);
  at += prefix;
  const after = request.after === '' ? 0 : writeText(bytes, at, request.after);
  view.setUint16(offset + 40, prefix, true);
  view.setUint16(offset + 42, after, true);
  return at + after - offset;
}

/** Removes the subscription from the frame of a query that asks for one of `topics`. */
export function clearTopic(frame: Uint8Array, topics: ReadonlySet<number>): void {
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
  prefixAt = 0;
  prefixBytes = 0;
  afterAt = 0;
  afterBytes = 0;

  read(bytes: Uint8Array, view: DataView, offset: number): void {
    this.bytes = bytes;
    this.op = byteAt(bytes, offset);
    this.mode = byteAt(bytes, offset + 16);
    this.flags = byteAt(bytes, offset + 17);
    this.keyAt = offset + QUERY_BYTES;
    this.keyBytes = view.getUint16(offset + 18, true);
    this.topic = view.getUint32(offset + 20, true);
    this.value = view.getFloat64(offset + 24, true);
    this.maxBytes = view.getUint32(offset + 32, true);
    this.maxRecords = view.getUint32(offset + 36, true);
    this.prefixAt = this.keyAt + this.keyBytes;
    this.prefixBytes = view.getUint16(offset + 40, true);
    this.afterAt = this.prefixAt + this.prefixBytes;
    this.afterBytes = view.getUint16(offset + 42, true);
  }
}
