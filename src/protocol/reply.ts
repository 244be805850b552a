/**
 * Frames shard -> main thread: the answer to one request (by slot) or a tail event of a watched stream (by topic).
 *
 * Content type, text, body and stages follow the head; the body is absent when it is in the transfer channel. Only
 * answers to requests that are traced have stages, so older nodes, which do not look for them, are never sent any. The
 * operation says what a, b, c and text mean: outside this folder its result names them.
 */
import { type ErrorCode, errorNumber } from '../base/errors.ts';
import { f64, struct, u16, u32, u8 } from '../base/struct.ts';
import { readText, writeText } from '../base/text.ts';
import { NO_STAGES, STAGE, readStages, writeStages } from './stage.ts';

export const REPLY_RESULT = 0;
export const REPLY_TAIL = 1;

/** The stream is closed (for a read: and the answer reaches the tail; for a write: by this one or its duplicate). */
export const REPLY_CLOSED = 1;
/** The answer reaches the tail. */
export const REPLY_UP_TO_DATE = 2;
/** JSON stream: the record fields are valid and Stream-Extensions is sent. */
export const REPLY_RECORDS = 4;
/** a, b, c hold producer numbers. */
export const REPLY_PRODUCER = 8;
export const REPLY_DUPLICATE = 16;
/** CREATE: the stream is new (201); otherwise it already existed (200). */
export const REPLY_CREATED = 32;
/** TAIL: the stream was deleted or expired; the topic has ended. */
export const REPLY_DELETED = 64;
/** TAIL: the event carries no bytes although the stream moved; readers must read. */
export const REPLY_BODY_OMITTED = 128;
/** The body is in the transfer channel under transferId. */
export const REPLY_TRANSFERRED = 256;
/** READ: the bytes are in the cold store; the body is a cold plan (protocol/cold.ts), not the client's body. */
export const REPLY_COLD = 512;
/** READ: the bytes are those that the request says the main thread holds (read.ts, HeldRead); they are left out. */
export const REPLY_HELD = 1024;

/** `id`: slot or topic. `code`: base/errors.ts. */
export const REPLY = struct(
  {
    ...{ id: u32, kind: u8, stages: u8, code: u16, flags: u16, contentTypeBytes: u16, textBytes: u16, zeros: u16 },
    ...{ bodyBytes: u32, transferId: u32, startOffset: f64, nextOffset: f64, recordFirst: f64, recordStart: f64 },
    ...{ recordNext: f64, a: f64, b: f64, c: f64 },
  },
  'content type, text, body, stages',
);
const HEAD = REPLY.fields;
export const REPLY_HEAD_BYTES = REPLY.size;

/**
 * An answer as numbers; the shard fills and writes it, the main thread reads it. `body` is what a client gets: raw
 * bytes, or for a JSON stream the array form `[a,b]`. On the main thread `body` and texts are valid only during the
 * callback (the memory belongs to the ring), unless `isBodyKept`.
 */
export class Reply {
  id = 0;
  kind = REPLY_RESULT;
  code = 0;
  flags = 0;
  contentType = '';
  text = '';
  startOffset = 0;
  nextOffset = 0;
  recordFirst = 0;
  recordStart = 0;
  recordNext = 0;
  a = 0;
  b = 0;
  c = 0;
  transferId = 0;
  body: Uint8Array | undefined = undefined;
  stages = NO_STAGES;
  /** The memory of `body` is not used again: it may be kept, but not changed. Never part of a frame. */
  isBodyKept = false;

  has(flag: number): boolean {
    return (this.flags & flag) !== 0;
  }

  /** A copy, because the original is used again, and so is the memory of its body. */
  withoutBody(): Reply {
    return Object.assign(new Reply(), this, { body: undefined, isBodyKept: false });
  }

  /** A result that is the code alone. */
  refuse(id: number, code: ErrorCode): this {
    this.reset(id);
    this.code = errorNumber(code);
    return this;
  }

  /** Back to an empty OK result for `id`. */
  reset(id: number): void {
    this.id = id;
    this.kind = REPLY_RESULT;
    this.code = 0;
    this.flags = 0;
    this.contentType = '';
    this.text = '';
    this.startOffset = 0;
    this.nextOffset = 0;
    this.recordFirst = 0;
    this.recordStart = 0;
    this.recordNext = 0;
    this.a = 0;
    this.b = 0;
    this.c = 0;
    this.transferId = 0;
    this.body = undefined;
    this.isBodyKept = false;
    this.stages = NO_STAGES;
  }

  /** Upper bound of the frame's size in bytes; a body in the transfer channel does not count. */
  bytesMax(): number {
    const body = this.transferId === 0 ? (this.body?.length ?? 0) : 0;
    const stages = this.stages.length * STAGE.size;
    return REPLY_HEAD_BYTES + 3 * (this.contentType.length + this.text.length) + body + stages;
  }

  /** Writes the frame at `offset`; returns its size. */
  write(bytes: Uint8Array, view: DataView, offset: number): number {
    const body = this.body;
    HEAD.id.set(view, offset, this.id);
    HEAD.kind.set(view, offset, this.kind);
    HEAD.stages.set(view, offset, this.stages.length);
    HEAD.code.set(view, offset, this.code);
    HEAD.flags.set(view, offset, this.transferId === 0 ? this.flags : this.flags | REPLY_TRANSFERRED);
    HEAD.zeros.set(view, offset, 0);
    HEAD.bodyBytes.set(view, offset, body?.length ?? 0);
    HEAD.transferId.set(view, offset, this.transferId);
    HEAD.startOffset.set(view, offset, this.startOffset);
    HEAD.nextOffset.set(view, offset, this.nextOffset);
    HEAD.recordFirst.set(view, offset, this.recordFirst);
    HEAD.recordStart.set(view, offset, this.recordStart);
    HEAD.recordNext.set(view, offset, this.recordNext);
    HEAD.a.set(view, offset, this.a);
    HEAD.b.set(view, offset, this.b);
    HEAD.c.set(view, offset, this.c);
    let at = offset + REPLY_HEAD_BYTES;
    const contentTypeBytes = this.contentType === '' ? 0 : writeText(bytes, at, this.contentType);
    at += contentTypeBytes;
    const textBytes = this.text === '' ? 0 : writeText(bytes, at, this.text);
    at += textBytes;
    HEAD.contentTypeBytes.set(view, offset, contentTypeBytes);
    HEAD.textBytes.set(view, offset, textBytes);
    if (body !== undefined && this.transferId === 0) {
      bytes.set(body, at);
      at += body.length;
    }
    if (this.stages.length > 0) at += writeStages(view, at, this.stages);
    return at - offset;
  }

  /** Reads the frame at `offset`; a body in the transfer channel is undefined: fetch it by transferId. */
  read(bytes: Uint8Array, view: DataView, offset: number): void {
    this.id = HEAD.id.get(view, offset);
    this.kind = HEAD.kind.get(view, offset);
    this.code = HEAD.code.get(view, offset);
    this.flags = HEAD.flags.get(view, offset);
    const contentTypeBytes = HEAD.contentTypeBytes.get(view, offset);
    const textBytes = HEAD.textBytes.get(view, offset);
    const bodyBytes = HEAD.bodyBytes.get(view, offset);
    this.transferId = HEAD.transferId.get(view, offset);
    this.startOffset = HEAD.startOffset.get(view, offset);
    this.nextOffset = HEAD.nextOffset.get(view, offset);
    this.recordFirst = HEAD.recordFirst.get(view, offset);
    this.recordStart = HEAD.recordStart.get(view, offset);
    this.recordNext = HEAD.recordNext.get(view, offset);
    this.a = HEAD.a.get(view, offset);
    this.b = HEAD.b.get(view, offset);
    this.c = HEAD.c.get(view, offset);
    let at = offset + REPLY_HEAD_BYTES;
    this.contentType = contentTypeBytes === 0 ? '' : readText(bytes, at, contentTypeBytes);
    at += contentTypeBytes;
    this.text = textBytes === 0 ? '' : readText(bytes, at, textBytes);
    at += textBytes;
    this.isBodyKept = false;
    const hasBody = bodyBytes !== 0 && this.transferId === 0;
    this.body = hasBody ? bytes.subarray(at, at + bodyBytes) : undefined;
    const stages = HEAD.stages.get(view, offset);
    this.stages = stages === 0 ? NO_STAGES : readStages(view, hasBody ? at + bodyBytes : at, stages);
  }
}

/** For the client of a refusal; it follows the sentence of the code and names both sides of the comparison. */
export function explain(reply: Reply, detail: string): void {
  reply.text = detail;
}

/** Empty: nothing. */
export function explanation(reply: Reply): string {
  return reply.code === 0 ? '' : reply.text;
}

/** Destination of answers and events; the shard implements it over the reply ring. */
export interface ReplySink {
  /** Sends `reply`; its body, if any, is copied. */
  send(reply: Reply): void;
}

// The producer fields of a write's answer, in replies with REPLY_PRODUCER. Functions, because every append uses them.

/** The epoch and sequence to show: those of the request, or the highest accepted sequence for a duplicate. */
export function showProducer(reply: Reply, epoch: number, seq: number): void {
  reply.a = epoch;
  reply.b = seq;
}

export function showSeqConflict(reply: Reply, expected: number, received: number): void {
  reply.b = expected;
  reply.c = received;
}

export function producerEpoch(reply: Reply): number {
  return reply.a;
}

export function producerSeq(reply: Reply): number {
  return reply.b;
}

/** For PRODUCER_SEQ_CONFLICT. */
export function expectedSeq(reply: Reply): number {
  return reply.b;
}

export function receivedSeq(reply: Reply): number {
  return reply.c;
}
