/**
 * Read: bytes or records of a stream from a position. The hot path of readers: requests and answers are reused objects.
 */
import { query } from './operation.ts';
import type { StreamName } from './flat-path.ts';
import { numberIn, resultFields } from './frame-fields.ts';
import {
  A,
  B,
  C,
  FLAGS,
  HELD,
  HELD_END,
  HELD_INCARNATION,
  HELD_LINEAGE,
  MAX_BYTES,
  MAX_RECORDS,
  MODE,
  TOPIC,
  VALUE,
} from './generic-fields.ts';
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

/** The part of a stream that is read. */
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

/** An earlier answer to the same question, as the main thread keeps it (gateway/read-cache.ts). */
export interface HeldRead {
  readonly incarnation: number;
  readonly lineage: number;
  /** Where its bytes end. */
  readonly nextOffset: number;
  /** They ended where the stream did at that time, not at a bound of the read. */
  readonly reachedTail: boolean;
}

/** Values for the content of a request's `held`. */
const HELD_NOTHING = 0;
const HELD_TO_BOUND = 1;
const HELD_TO_TAIL = 2;

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
  /** Nothing is held when false, and the rest means nothing. */
  holds = false;
  heldIncarnation = 0;
  heldLineage = 0;
  heldEnd = 0;
  heldToTail = false;
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
    viewed.holds = query[HELD] !== HELD_NOTHING;
    viewed.heldToTail = query[HELD] === HELD_TO_TAIL;
    viewed.heldIncarnation = query[HELD_INCARNATION];
    viewed.heldLineage = query[HELD_LINEAGE];
    viewed.heldEnd = query[HELD_END];
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
  request[HELD] = HELD_NOTHING;
}

/** The question of a READ, apart from `held` and topic. */
export interface ReadQuestion extends StreamName, ReadRange {}

/** Fills `to` with what the request asks. */
export function copyQuestion(request: Request, to: { -readonly [K in keyof ReadQuestion]: ReadQuestion[K] }): void {
  to.bucket = request.command.bucket;
  to.stream = request.command.stream;
  to.mode = request[MODE];
  to.value = request[VALUE];
  to.maxBytes = request[MAX_BYTES];
  to.maxRecords = request[MAX_RECORDS];
  to.readFlags = request[FLAGS];
}

/** Says what an answer need not bring again. */
export function holdRead(request: Request, held: HeldRead | undefined): void {
  request[HELD] = held === undefined ? HELD_NOTHING : held.reachedTail ? HELD_TO_TAIL : HELD_TO_BOUND;
  if (held === undefined) return;
  request[HELD_INCARNATION] = held.incarnation;
  request[HELD_LINEAGE] = held.lineage;
  request[HELD_END] = held.nextOffset;
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

/** The history that the shard's state has in this process; see State.lineage. Bytes at an offset never change within one. */
export function showLineage(reply: Reply, lineage: number): void {
  reply[B] = lineage;
}

export function readLineage(reply: Reply): number {
  return reply[B];
}

const READ_RESULT = resultFields({ incarnation: numberIn(A), createdAtMs: numberIn(C) });

export const read = query({
  number: 32,
  scope: 'stream',
  needsLeaders: false,
  request: READ_REQUEST,
  result: READ_RESULT,
});
