/**
 * Read: bytes or records of a stream from a position. The hot path of readers: requests and answers are reused objects.
 */
import { query } from './operation.ts';
import type { StreamName } from './flat-path.ts';
import { numberIn, resultFields } from './frame-fields.ts';
import { A, C, FLAGS, MAX_BYTES, MAX_RECORDS, MODE, TOPIC, VALUE } from './generic-fields.ts';
import type { Reply } from './reply.ts';
import { type RequestCodec, type Query, type Request, type StreamTarget, nameStream } from './request.ts';

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

/** What is read of a stream. */
export interface ReadRange {
  /** One of READ_*. */
  readonly mode: number;
  /** Offset, record ordinal or count, by mode. */
  readonly value: number;
  /** 0: the shard's own bound only. */
  readonly maxBytes: number;
  /** 0: unlimited. */
  readonly maxRecords: number;
  readonly readFlags: number;
}

/** The rest of the range is at its default: from the start, all that one answer holds. */
export interface ReadRequest extends StreamName, Partial<ReadRange> {
  /** See ReadView. */
  readonly topic?: number;
}

/** A read as the shard sees it. Reused; valid until the next one. */
class ReadView implements ReadRange {
  mode = 0;
  value = 0;
  maxBytes = 0;
  maxRecords = 0;
  readFlags = 0;
  /**
   * Non-zero: the topic gets the stream's tail events, atomically with the read, when the read succeeds (code OK) and the stream is
   * not closed at the returned position.
   */
  topic = 0;
}

export type { ReadView };

const viewed = new ReadView();

const READ_REQUEST: RequestCodec<ReadRequest, ReadView> = {
  write(request, asked) {
    nameStream(request, asked);
    const { mode = READ_OFFSET, value = 0, maxBytes = 0, maxRecords = 0, readFlags = 0, topic = 0 } = asked;
    fillRange(request, { mode, value, maxBytes, maxRecords, readFlags }, topic);
  },
  read(query: Query): ReadView {
    viewed.mode = query[MODE];
    viewed.value = query[VALUE];
    viewed.maxBytes = query[MAX_BYTES];
    viewed.maxRecords = query[MAX_RECORDS];
    viewed.readFlags = query[FLAGS];
    viewed.topic = query[TOPIC];
    return viewed;
  },
};

function fillRange(request: Request, { mode, value, maxBytes, maxRecords, readFlags }: ReadRange, topic: number): void {
  request[MODE] = mode;
  request[VALUE] = value;
  request[MAX_BYTES] = maxBytes;
  request[MAX_RECORDS] = maxRecords;
  request[FLAGS] = readFlags;
  request[TOPIC] = topic;
}

/** The hot path: both objects are there anyway. `topic`: see ReadView; 0: none. */
export function fillRead(request: Request, target: StreamTarget, range: ReadRange, topic: number): void {
  request.op = read.number;
  request.group = target.group;
  request.command.bucket = target.bucket;
  request.command.stream = target.stream;
  fillRange(request, range, topic);
}

/** Takes fewer bytes than the range says. */
export function limitRead(request: Request, maxBytes: number): void {
  request[MAX_BYTES] = maxBytes;
}

/**
 * Identity of the stream that was read, to distinguish it from others of its name. Part of every answer to a reader, so
 * functions instead of an object.
 */
export function showRead(reply: Reply, incarnation: number, createdAtMs: number): void {
  reply[A] = incarnation;
  reply[C] = createdAtMs;
}

export function readIncarnation(reply: Reply): number {
  return reply[A];
}

export function readCreatedAtMs(reply: Reply): number {
  return reply[C];
}

const READ_RESULT = resultFields({ incarnation: numberIn(A), createdAtMs: numberIn(C) });

export const read = query({
  number: 32,
  scope: 'stream',
  needsLeaders: false,
  request: READ_REQUEST,
  result: READ_RESULT,
});
