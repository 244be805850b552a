/**
 * Frames main thread -> shard. A frame is a REQUEST and either a command (see command.ts) or the parameters of a
 * query, a QUERY; the operation's file says what they mean. Queries about a whole shard carry group ALL_GROUPS.
 */
import { struct, u16, u32, u8 } from '../base/struct.ts';
import { type CommandFields, commandBytesMax, newCommandFields, resetCommandFields, writeCommand } from './command.ts';
import { BODY_AS_SENT, type BodyMark } from './checked-body.ts';
import { readText } from '../base/text.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import type { StreamName } from './flat-path.ts';
import { unpack } from './message.ts';
import { READ, READ_NUMBER, ReadFields } from './read-fields.ts';

/** Numbers below are commands: the first byte of a frame tells the two apart. */
export const FIRST_QUERY_NUMBER = 32;

export const ALL_GROUPS = 0xffff;
/**
 * `flags` 1: the payload is in the transfer channel; 2: the answer says its stages; 4 and 8: the mark of a checked body.
 * `quotaMark`: one of QUOTA_*.
 */
export const REQUEST = struct(
  { op: u8, flags: u8, group: u16, slot: u32, transferId: u32, quotaMark: u32 },
  'command, READ, or the message of another query',
);
const HEAD = REQUEST.fields;
export const REQUEST_HEAD_BYTES = REQUEST.size;
export const REQUEST_FLAG_TRANSFERRED = 1;
/** The request is traced: its answer says how long the stages of the shards took (stage.ts). Older ones ignore it. */
export const REQUEST_FLAG_TRACED = 2;
/** The mark of a checked body (checked-body.ts); none is 0. */
export const REQUEST_FLAGS_CHECKED = 12;
const BODY_MARK_SHIFT = 2;

/** The sender says nothing, as in the previous version, or found that it fits: the group's share applies. */
export const QUOTA_UNMARKED = 0;
/** It does not fit: the leader refuses it if it would add anything. */
export const QUOTA_OVER = 1;
/** The sender knows of no quota: the leader refuses it if there is one and it would add anything. */
export const QUOTA_UNKNOWN = 2;

/** The mark of the command at `at`, after the header of its frame. */
export function quotaMark(view: DataView, at: number): number {
  return at >= REQUEST_HEAD_BYTES ? HEAD.quotaMark.get(view, at - REQUEST_HEAD_BYTES) : QUOTA_UNMARKED;
}

/** The mark of the payload of the command at `at`: one of BODY_* (checked-body.ts). */
export function bodyMark(view: DataView, at: number): number {
  if (at < REQUEST_HEAD_BYTES) return BODY_AS_SENT;
  return (HEAD.flags.get(view, at - REQUEST_HEAD_BYTES) & REQUEST_FLAGS_CHECKED) >> BODY_MARK_SHIFT;
}

/** The payload of the command at `at` is a plain body now. */
export function clearBodyMark(view: DataView, at: number): void {
  const flags = HEAD.flags.get(view, at - REQUEST_HEAD_BYTES);
  HEAD.flags.set(view, at - REQUEST_HEAD_BYTES, flags & ~REQUEST_FLAGS_CHECKED);
}

/**
 * A request on its way into its frame. It is for one operation, whose file says what it is asked with and writes that
 * into these fields (requestFor, fillRequest). Objects may be reused: an operation sets all the fields that it reads.
 */
export interface Request {
  /** Commands: one of QUOTA_*. A command that adds nothing is answered as usual. Older leaders ignore it. */
  quotaMark: number;
  isTraced: boolean;
  /** The gateway sets it, on a copy of its own, when the payload is a checked body. */
  bodyMark: BodyMark;
  op: number;
  group: number;
  /** All of a command; of a READ, only bucket and stream. */
  readonly command: CommandFields;
  readonly read: ReadFields;
  /** The question of any other query. */
  message: Uint8Array;
}

const NO_MESSAGE = new Uint8Array(0);

export function newRequest(): Request {
  return {
    ...{ quotaMark: QUOTA_UNMARKED, isTraced: false, bodyMark: BODY_AS_SENT, op: 0, group: 0 },
    ...{ command: newCommandFields(), read: new ReadFields(), message: NO_MESSAGE },
  };
}

/** The request of a query, and where it stands in the frame. `read` gives what the shard sees of it. */
export interface RequestCodec<Asked, Seen = Asked> {
  write(request: Request, asked: Asked): void;
  read(query: Query): Seen;
}

/** An operation, by what it is asked with. */
export interface Asking<Asked> {
  readonly number: number;
  readonly request: { write(request: Request, asked: Asked): void };
}

/** A request of its own. */
export function requestFor<Asked>(operation: Asking<Asked>, group: number, asked: Asked): Request {
  const request = newRequest();
  fillRequest(request, operation, group, asked);
  return request;
}

/** The same in an object that is used again. */
export function fillRequest<Asked>(request: Request, operation: Asking<Asked>, group: number, asked: Asked): void {
  request.op = operation.number;
  request.command.kind = operation.number < FIRST_QUERY_NUMBER ? operation.number : 0;
  request.group = group;
  operation.request.write(request, asked);
}

/** A stream and its group. */
export interface StreamTarget extends StreamName {
  readonly group: number;
}

/** Hot paths fill the command in place. All other fields start at their defaults; the operation says which it has. */
export function beginCommand<Fields>(
  request: Request,
  operation: FilledInPlace<Fields>,
  { group, bucket, stream }: StreamTarget,
): Fields {
  const { command } = request;
  request.op = operation.number;
  request.group = group;
  resetCommandFields(command);
  command.kind = operation.number;
  command.bucket = bucket;
  command.stream = stream;
  return operation.request.fields(command);
}

interface FilledInPlace<Fields> {
  readonly number: number;
  readonly request: { fields(command: CommandFields): Fields };
}

export function nameStream({ command }: Request, { bucket, stream }: StreamName): void {
  command.bucket = bucket;
  command.stream = stream;
}

/** Upper bound of the frame's size in bytes. */
export function requestBytesMax({ command, message }: Request): number {
  return REQUEST_HEAD_BYTES + READ.size + commandBytesMax(command) + message.length;
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
  HEAD.op.set(view, offset, request.op);
  const transferred = transferId === 0 ? 0 : REQUEST_FLAG_TRANSFERRED;
  const flags = transferred | (request.bodyMark << BODY_MARK_SHIFT);
  HEAD.flags.set(view, offset, request.isTraced ? flags | REQUEST_FLAG_TRACED : flags);
  HEAD.group.set(view, offset, request.group);
  HEAD.slot.set(view, offset, slot);
  HEAD.transferId.set(view, offset, transferId);
  HEAD.quotaMark.set(view, offset, request.quotaMark);
  const at = offset + REQUEST_HEAD_BYTES;
  const { op, command, message } = request;
  if (op < FIRST_QUERY_NUMBER) return REQUEST_HEAD_BYTES + writeCommand(command, bytes, view, at, transferId !== 0);
  if (op === READ_NUMBER) return REQUEST_HEAD_BYTES + request.read.write(bytes, view, at, command);
  bytes.set(message, at);
  return REQUEST_HEAD_BYTES + message.length;
}

/** Removes the subscription from the frame of a READ that asks for one of `topics`. */
export function clearTopic(frame: Uint8Array, topics: ReadonlySet<number>): void {
  const view = new DataView(frame.buffer, frame.byteOffset + REQUEST_HEAD_BYTES);
  const { topic } = READ.fields;
  if (topics.has(topic.get(view, 0))) topic.set(view, 0, 0);
}

/** A query in place, on the shard's side. Its operation reads what it asks. Reused; valid until the next read. */
export class Query {
  op = 0;
  /** The question of a READ. */
  readonly fields = new ReadFields();
  /** The question of any other query. */
  message: unknown = undefined;
  /** Holds the key of the stream that the query names: bucket, NUL, stream. */
  bytes: Uint8Array = NO_MESSAGE;
  keyAt = 0;
  keyBytes = 0;

  /** Reads the frame of `size` bytes at `offset`. */
  read(bytes: Uint8Array, view: DataView, offset: number, size: number): void {
    const at = offset + REQUEST_HEAD_BYTES;
    this.op = HEAD.op.get(view, offset);
    if (this.op === READ_NUMBER) {
      this.bytes = bytes;
      this.keyAt = at + READ.size;
      this.keyBytes = this.fields.read(view, at);
      return;
    }
    this.message = unpack(bytes.subarray(at, offset + size));
    this.bytes = namesStream(this.message) ? encodeUtf8(`${this.message.bucket}\0${this.message.stream}`) : NO_MESSAGE;
    this.keyAt = 0;
    this.keyBytes = this.bytes.length;
  }

  key(): Uint8Array {
    return this.bytes.slice(this.keyAt, this.keyAt + this.keyBytes);
  }

  keyText(): string {
    return readText(this.bytes, this.keyAt, this.keyBytes);
  }
}

function namesStream(message: unknown): message is StreamName {
  return typeof message === 'object' && message !== null && 'bucket' in message && 'stream' in message;
}
