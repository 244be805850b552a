/** Read: bytes or records of a stream from a position. The hot path of readers: their objects are reused. */
import { decodeUtf8 } from '../../base/utf8.ts';
import type { StreamName } from '../flat-path.ts';
import { type ResultCodec, numbersIn, query } from '../operation.ts';
import {
  HELD_NOTHING,
  HELD_TO_BOUND,
  HELD_TO_TAIL,
  READ_NUMBER,
  READ_OFFSET,
  type ReadFields,
  type ReadRange,
} from '../read-fields.ts';
import type { Reply } from '../reply.ts';
import { type Request, type RequestCodec, type StreamTarget, nameStream } from '../request.ts';

/** Records come as {"record":n,"value":...}, still inside a JSON array. */
export const READ_FLAG_ENVELOPE = 1;
/** Do not renew the stream's sliding lifetime: a re-read for a reader that is connected and was counted already. */
export const READ_FLAG_NO_TOUCH = 2;
/**
 * The body is count u32, the end of each message or record (u32, relative to the bytes), then the stored bytes (records
 * with their \n). A byte stream's answer holds whole messages then, as a JSON stream's always holds whole records.
 */
export const READ_FLAG_PARTS = 4;
/** A stream that is not there: once it is made, the topic gets an event with a code, so that its readers look again. */
export const READ_FLAG_AWAIT = 8;

/** An earlier answer to the same question, as the main thread keeps it (gateway/read-cache.ts). */
export interface HeldRead {
  readonly incarnation: number;
  readonly lineage: number;
  /** The offset at which the held bytes end. */
  readonly nextOffset: number;
  /** The held bytes ended at the tail of that time, not at a bound of the read. */
  readonly reachedTail: boolean;
}

/** The rest of the range is at its default: from the start, all that one answer holds. */
export interface ReadRequest extends StreamName, Partial<ReadRange> {
  /** The topic that gets tail events (ReadFields); 0: none. */
  readonly topic?: number;
}

const READ_REQUEST: RequestCodec<ReadRequest, ReadFields> = {
  write(request, asked) {
    nameStream(request, asked);
    const { mode = READ_OFFSET, value = 0, maxBytes = 0, maxRecords = 0, readFlags = 0, topic = 0 } = asked;
    fillRange(request.read, { mode, value, maxBytes, maxRecords, readFlags }, topic);
  },
  read: ({ fields }) => fields,
};

function fillRange(fields: ReadFields, range: ReadRange, topic: number): void {
  fields.mode = range.mode;
  fields.value = range.value;
  fields.maxBytes = range.maxBytes;
  fields.maxRecords = range.maxRecords;
  fields.readFlags = range.readFlags;
  fields.topic = topic;
  fields.held = HELD_NOTHING;
}

/** The question of a READ, apart from `held` and topic. */
export interface ReadQuestion extends StreamName, ReadRange {}

/** Fills `to` with what the request asks. */
export function copyQuestion(
  { command, read }: Request,
  to: { -readonly [K in keyof ReadQuestion]: ReadQuestion[K] },
): void {
  to.bucket = command.bucket;
  to.stream = command.stream;
  to.mode = read.mode;
  to.value = read.value;
  to.maxBytes = read.maxBytes;
  to.maxRecords = read.maxRecords;
  to.readFlags = read.readFlags;
}

/** Names the bytes that the answer need not bring again. */
export function holdRead({ read: fields }: Request, held: HeldRead | undefined): void {
  fields.held = held === undefined ? HELD_NOTHING : held.reachedTail ? HELD_TO_TAIL : HELD_TO_BOUND;
  if (held === undefined) return;
  fields.heldIncarnation = held.incarnation;
  fields.heldLineage = held.lineage;
  fields.heldEnd = held.nextOffset;
}

/** Fills in a READ without allocating, for the hot path. `topic`: see ReadFields; 0: none. */
export function fillRead(request: Request, target: StreamTarget, range: ReadRange, topic: number): void {
  request.op = read.number;
  request.group = target.group;
  nameStream(request, target);
  fillRange(request.read, range, topic);
}

/** Bounds the bytes of the answer below what the range allows. */
export function limitRead(request: Request, maxBytes: number): void {
  request.read.maxBytes = maxBytes;
}

/**
 * Identity of the stream that was read, to distinguish it from others of its name. Part of every answer to a reader, so
 * functions instead of an object.
 */
export function showRead(reply: Reply, incarnation: number, createdAtMs: number): void {
  reply.a = incarnation;
  reply.c = createdAtMs;
}

export function readIncarnation(reply: Reply): number {
  return reply.a;
}

export function readCreatedAtMs(reply: Reply): number {
  return reply.c;
}

/** The history of the shard's state in this process; see State.lineage. Bytes at an offset never change within one. */
export function showLineage(reply: Reply, lineage: number): void {
  reply.b = lineage;
}

export function readLineage(reply: Reply): number {
  return reply.b;
}

export interface ReadResult {
  readonly incarnation: number;
  readonly createdAtMs: number;
}

const STREAM_READ = numbersIn({ incarnation: 'a', createdAtMs: 'c' });

/** For callers off the hot path, which read JSON; empty when there is no body. */
const READ_RESULT: ResultCodec<ReadResult, ReadResult & { readonly text: string }> = {
  write: (reply, result) => STREAM_READ.write(reply, result),
  read: (reply) => ({
    ...STREAM_READ.read(reply),
    text: reply.body === undefined ? '' : decodeUtf8(reply.body),
  }),
};

export const read = query({
  number: READ_NUMBER,
  scope: 'stream',
  needsLeaders: false,
  request: READ_REQUEST,
  result: READ_RESULT,
});
