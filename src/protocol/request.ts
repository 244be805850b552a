/**
 * Frames main thread -> shard. A frame is a REQUEST and either a command (see command.ts) or the parameters of a query, a
 * QUERY; the operation's file says what they mean. Queries about a whole shard carry group ALL_GROUPS.
 */
import { f64, struct, u16, u32, u8 } from '../base/struct.ts';
import { type CommandFields, commandBytesMax, newCommandFields, resetCommandFields, writeCommand } from './command.ts';
import { readText, writeText } from '../base/text.ts';
import type { StreamName } from './flat-path.ts';
import {
  AFTER,
  FLAGS,
  HELD,
  HELD_END,
  HELD_INCARNATION,
  HELD_LINEAGE,
  MAX_BYTES,
  MAX_RECORDS,
  MODE,
  PREFIX,
  TOPIC,
  VALUE,
} from './generic-fields.ts';

/** Numbers below are commands: the first byte of a frame tells the two apart. */
export const FIRST_QUERY_NUMBER = 32;

export const ALL_GROUPS = 0xffff;
/** `flags` 1: the payload is in the transfer channel; 2: the answer says its stages. `quotaMark`: one of QUOTA_*. */
const REQUEST_HEAD = { op: u8, flags: u8, group: u16, slot: u32, transferId: u32, quotaMark: u32 };
export const REQUEST = struct(REQUEST_HEAD, 'command, or the rest of a query');
export const QUERY = struct(
  {
    ...{ ...REQUEST_HEAD, mode: u8, queryFlags: u8, keyBytes: u16, topic: u32, value: f64 },
    ...{ maxBytes: u32, maxRecords: u32, prefixBytes: u16, afterBytes: u16 },
    ...{ held: u8, heldLineage: u32, heldIncarnation: f64, heldEnd: f64 },
  },
  'key, prefix, after',
);
const HEAD = REQUEST.fields;
const PARAMETERS = QUERY.fields;
export const REQUEST_HEAD_BYTES = REQUEST.size;
export const REQUEST_FLAG_TRANSFERRED = 1;
/** The request is traced: its answer says how long the stages of the shards took (stage.ts). Older leaders ignore it. */
export const REQUEST_FLAG_TRACED = 2;

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
  return at >= REQUEST_HEAD_BYTES ? HEAD.quotaMark.get(view, at - REQUEST_HEAD_BYTES) : QUOTA_UNMARKED;
}

/**
 * A request on its way into its frame. It is for one operation, whose file says what it is asked with and writes that into these fields
 * (requestFor, fillRequest). Objects may be reused: an operation sets all the fields that it reads.
 */
export interface Request {
  /** Commands: one of QUOTA_*. A command that adds nothing is answered as usual. Older leaders ignore it. */
  quotaMark: number;
  isTraced: boolean;
  op: number;
  group: number;
  /** For commands: everything. For queries only bucket and stream are read from here. */
  readonly command: CommandFields;
  [MODE]: number;
  [FLAGS]: number;
  [VALUE]: number;
  [MAX_BYTES]: number;
  [MAX_RECORDS]: number;
  [TOPIC]: number;
  [PREFIX]: string;
  [AFTER]: string;
  [HELD]: number;
  [HELD_INCARNATION]: number;
  [HELD_LINEAGE]: number;
  [HELD_END]: number;
}

export function newRequest(): Request {
  return {
    quotaMark: QUOTA_UNMARKED,
    isTraced: false,
    op: 0,
    group: 0,
    command: newCommandFields(),
    [MODE]: 0,
    [FLAGS]: 0,
    [VALUE]: 0,
    [MAX_BYTES]: 0,
    [MAX_RECORDS]: 0,
    [TOPIC]: 0,
    [PREFIX]: '',
    [AFTER]: '',
    [HELD]: 0,
    [HELD_INCARNATION]: 0,
    [HELD_LINEAGE]: 0,
    [HELD_END]: 0,
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

/** The hot path fills the command in place. All other fields start at their defaults; the operation says which ones it has. */
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

/** The request of a query about one stream that asks for nothing else. */
export const NAMED_STREAM: RequestCodec<StreamName, undefined> = { write: nameStream, read: () => undefined };
/** For an operation that is asked with nothing. */
export const NOTHING_ASKED: RequestCodec<undefined, undefined> = { write: () => undefined, read: () => undefined };

export function nameStream({ command }: Request, { bucket, stream }: StreamName): void {
  command.bucket = bucket;
  command.stream = stream;
}

/** Upper bound of the frame's size in bytes. */
export function requestBytesMax(request: Request): number {
  const texts = request[PREFIX].length + request[AFTER].length;
  return REQUEST_HEAD_BYTES + QUERY.size + commandBytesMax(request.command) + 3 * texts;
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
  HEAD.flags.set(view, offset, request.isTraced ? transferred | REQUEST_FLAG_TRACED : transferred);
  HEAD.group.set(view, offset, request.group);
  HEAD.slot.set(view, offset, slot);
  HEAD.transferId.set(view, offset, transferId);
  HEAD.quotaMark.set(view, offset, request.quotaMark);
  if (request.op < FIRST_QUERY_NUMBER) {
    const size = writeCommand(request.command, bytes, view, offset + REQUEST_HEAD_BYTES, transferId !== 0);
    return REQUEST_HEAD_BYTES + size;
  }
  return writeQuery(request, bytes, view, offset);
}

function writeQuery(request: Request, bytes: Uint8Array, view: DataView, offset: number): number {
  const { bucket, stream } = request.command;
  let at = offset + QUERY.size;
  at += writeText(bytes, at, bucket);
  if (stream !== '') {
    bytes[at++] = 0;
    at += writeText(bytes, at, stream);
  }
  PARAMETERS.mode.set(view, offset, request[MODE]);
  PARAMETERS.queryFlags.set(view, offset, request[FLAGS]);
  PARAMETERS.keyBytes.set(view, offset, at - offset - QUERY.size);
  PARAMETERS.topic.set(view, offset, request[TOPIC]);
  PARAMETERS.value.set(view, offset, request[VALUE]);
  PARAMETERS.maxBytes.set(view, offset, request[MAX_BYTES]);
  PARAMETERS.maxRecords.set(view, offset, request[MAX_RECORDS]);
  PARAMETERS.held.set(view, offset, request[HELD]);
  PARAMETERS.heldIncarnation.set(view, offset, request[HELD_INCARNATION]);
  PARAMETERS.heldLineage.set(view, offset, request[HELD_LINEAGE]);
  PARAMETERS.heldEnd.set(view, offset, request[HELD_END]);
  const prefix = request[PREFIX] === '' ? 0 : writeText(bytes, at, request[PREFIX]);
  at += prefix;
  const after = request[AFTER] === '' ? 0 : writeText(bytes, at, request[AFTER]);
  PARAMETERS.prefixBytes.set(view, offset, prefix);
  PARAMETERS.afterBytes.set(view, offset, after);
  return at + after - offset;
}

/** Removes the subscription from the frame of a query that asks for one of `topics`. */
export function clearTopic(frame: Uint8Array, topics: ReadonlySet<number>): void {
  const view = new DataView(frame.buffer, frame.byteOffset);
  if (topics.has(PARAMETERS.topic.get(view, 0))) PARAMETERS.topic.set(view, 0, 0);
}

/** A query in place, on the shard's side. Its operation reads what it asks. Reused; valid until the next read. */
export class Query {
  bytes: Uint8Array = new Uint8Array(0);
  op = 0;
  keyAt = 0;
  keyBytes = 0;
  [MODE] = 0;
  [FLAGS] = 0;
  [VALUE] = 0;
  [MAX_BYTES] = 0;
  [MAX_RECORDS] = 0;
  [TOPIC] = 0;
  [HELD] = 0;
  [HELD_INCARNATION] = 0;
  [HELD_LINEAGE] = 0;
  [HELD_END] = 0;
  #prefixBytes = 0;
  #afterBytes = 0;

  read(bytes: Uint8Array, view: DataView, offset: number): void {
    this.bytes = bytes;
    this.op = HEAD.op.get(view, offset);
    this[MODE] = PARAMETERS.mode.get(view, offset);
    this[FLAGS] = PARAMETERS.queryFlags.get(view, offset);
    this.keyAt = offset + QUERY.size;
    this.keyBytes = PARAMETERS.keyBytes.get(view, offset);
    this[TOPIC] = PARAMETERS.topic.get(view, offset);
    this[VALUE] = PARAMETERS.value.get(view, offset);
    this[MAX_BYTES] = PARAMETERS.maxBytes.get(view, offset);
    this[MAX_RECORDS] = PARAMETERS.maxRecords.get(view, offset);
    this[HELD] = PARAMETERS.held.get(view, offset);
    this[HELD_INCARNATION] = PARAMETERS.heldIncarnation.get(view, offset);
    this[HELD_LINEAGE] = PARAMETERS.heldLineage.get(view, offset);
    this[HELD_END] = PARAMETERS.heldEnd.get(view, offset);
    this.#prefixBytes = PARAMETERS.prefixBytes.get(view, offset);
    this.#afterBytes = PARAMETERS.afterBytes.get(view, offset);
  }

  /** Bucket, NUL, stream; or what the operation has in its place. */
  keyText(): string {
    return readText(this.bytes, this.keyAt, this.keyBytes);
  }

  key(): Uint8Array {
    return this.bytes.slice(this.keyAt, this.keyAt + this.keyBytes);
  }

  [PREFIX](): Uint8Array {
    const at = this.keyAt + this.keyBytes;
    return this.bytes.slice(at, at + this.#prefixBytes);
  }

  [AFTER](): Uint8Array {
    const at = this.keyAt + this.keyBytes + this.#prefixBytes;
    return this.bytes.slice(at, at + this.#afterBytes);
  }
}
