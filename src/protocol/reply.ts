/**
 * Frames shard -> main thread: the answer to one request (by slot) or a tail event of a watched stream (by topic).
 *
 *   0 slot or topic u32 | 4 kind u8 | 5 zero u8 | 6 code u16 (base/errors.ts) | 8 flags u16 | 10 contentTypeBytes u16
 *  12 textBytes u16 | 14 zero u16 | 16 bodyBytes u32 | 20 transferId u32 | 24 startOffset f64 | 32 nextOffset f64
 *  40 recordFirst f64 | 48 recordStart f64 | 56 recordNext f64 | 64 a f64 | 72 b f64 | 80 c f64
 *  88 content type, text, body (absent when in the transfer channel)
 *
 * Little-endian. What a, b, c and text mean says the operation (operations.ts); in a refusal text is what was compared (refusal.ts).
 */
import { byteAt } from '../base/bytes.ts';
import { readText, writeText } from '../base/text.ts';
import { A, B, C, TEXT } from './generic-fields.ts';

export const REPLY_RESULT = 0;
export const REPLY_TAIL = 1;

/**
 * The stream is closed (for a read: and the answer reaches the tail; for a write: by this request or the replayed
 * duplicate).
 */
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

export const REPLY_HEAD_BYTES = 88;

/**
 * An answer as numbers; the shard fills and writes it, the main thread reads it. `body` is what a client gets: raw
 * bytes, or for a JSON stream the array form `[a,b]`. On the main thread `body` and texts are valid only during the
 * callback (the memory belongs to the ring), unless the body was transferred separately.
 */
export class Reply {
  id = 0;
  kind = REPLY_RESULT;
  code = 0;
  flags = 0;
  contentType = '';
  [TEXT] = '';
  startOffset = 0;
  nextOffset = 0;
  recordFirst = 0;
  recordStart = 0;
  recordNext = 0;
  [A] = 0;
  [B] = 0;
  [C] = 0;
  transferId = 0;
  body: Uint8Array | undefined = undefined;

  has(flag: number): boolean {
    return (this.flags & flag) !== 0;
  }

  /** Back to an empty OK result for `id`. */
  reset(id: number): void {
    this.id = id;
    this.kind = REPLY_RESULT;
    this.code = 0;
    this.flags = 0;
    this.contentType = '';
    this[TEXT] = '';
    this.startOffset = 0;
    this.nextOffset = 0;
    this.recordFirst = 0;
    this.recordStart = 0;
    this.recordNext = 0;
    this[A] = 0;
    this[B] = 0;
    this[C] = 0;
    this.transferId = 0;
    this.body = undefined;
  }

  /** Upper bound of the frame's size in bytes; a body in the transfer channel does not count. */
  bytesMax(): number {
    const body = this.transferId === 0 ? (this.body?.length ?? 0) : 0;
    return REPLY_HEAD_BYTES + 3 * (this.contentType.length + this[TEXT].length) + body;
  }

  /** Writes the frame at `offset`; returns its size. */
  write(bytes: Uint8Array, view: DataView, offset: number): number {
    const body = this.body;
    view.setUint32(offset, this.id, true);
    bytes[offset + 4] = this.kind;
    bytes[offset + 5] = 0;
    view.setUint16(offset + 6, this.code, true);
    view.setUint16(offset + 8, this.transferId === 0 ? this.flags : this.flags | REPLY_TRANSFERRED, true);
    view.setUint16(offset + 14, 0, true);
    view.setUint32(offset + 16, body?.length ?? 0, true);
    view.setUint32(offset + 20, this.transferId, true);
    view.setFloat64(offset + 24, this.startOffset, true);
    view.setFloat64(offset + 32, this.nextOffset, true);
    view.setFloat64(offset + 40, this.recordFirst, true);
    view.setFloat64(offset + 48, this.recordStart, true);
    view.setFloat64(offset + 56, this.recordNext, true);
    view.setFloat64(offset + 64, this[A], true);
    view.setFloat64(offset + 72, this[B], true);
    view.setFloat64(offset + 80, this[C], true);
    let at = offset + REPLY_HEAD_BYTES;
    const contentTypeBytes = this.contentType === '' ? 0 : writeText(bytes, at, this.contentType);
    at += contentTypeBytes;
    const textBytes = this[TEXT] === '' ? 0 : writeText(bytes, at, this[TEXT]);
    at += textBytes;
    view.setUint16(offset + 10, contentTypeBytes, true);
    view.setUint16(offset + 12, textBytes, true);
    if (body !== undefined && this.transferId === 0) {
      bytes.set(body, at);
      at += body.length;
    }
    return at - offset;
  }

  /**
   * Reads the frame at `offset`; a body in the transfer channel is left undefined for the caller to fetch by
   * transferId.
   */
  read(bytes: Uint8Array, view: DataView, offset: number): void {
    this.id = view.getUint32(offset, true);
    this.kind = byteAt(bytes, offset + 4);
    this.code = view.getUint16(offset + 6, true);
    this.flags = view.getUint16(offset + 8, true);
    const contentTypeBytes = view.getUint16(offset + 10, true);
    const textBytes = view.getUint16(offset + 12, true);
    const bodyBytes = view.getUint32(offset + 16, true);
    this.transferId = view.getUint32(offset + 20, true);
    this.startOffset = view.getFloat64(offset + 24, true);
    this.nextOffset = view.getFloat64(offset + 32, true);
    this.recordFirst = view.getFloat64(offset + 40, true);
    this.recordStart = view.getFloat64(offset + 48, true);
    this.recordNext = view.getFloat64(offset + 56, true);
    this[A] = view.getFloat64(offset + 64, true);
    this[B] = view.getFloat64(offset + 72, true);
    this[C] = view.getFloat64(offset + 80, true);
    let at = offset + REPLY_HEAD_BYTES;
    this.contentType = contentTypeBytes === 0 ? '' : readText(bytes, at, contentTypeBytes);
    at += contentTypeBytes;
    this[TEXT] = textBytes === 0 ? '' : readText(bytes, at, textBytes);
    at += textBytes;
    this.body = bodyBytes === 0 || this.transferId !== 0 ? undefined : bytes.subarray(at, at + bodyBytes);
  }
}
