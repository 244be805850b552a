/**
 * Requests sent to the leader's shard, and their answers; both opaque here. All those of a turn share one frame, but a
 * large request has frames of its own, each with a piece of it.
 */
import { Reader, Writer } from '../../base/cursor.ts';
import { f64, struct, u16, u32 } from '../../base/struct.ts';
import { FRAME_KIND, FRAME_HEAD_BYTES, FRAME_PAYLOAD_BYTES_MAX, sealFrame } from './frame.ts';

export interface Forward {
  /** The requester's number for this request, unique among those that wait. */
  readonly correlation: number;
  readonly group: number;
  readonly bytes: Uint8Array;
}

export interface ForwardReply {
  readonly correlation: number;
  readonly bytes: Uint8Array;
}

export const FORWARD = struct({ correlation: u32, group: u16, bytes: u32 }, 'request; the next FORWARD');
export const FORWARD_PIECE = struct({ correlation: u32, group: u16, totalBytes: u32, at: u32 }, 'bytes of the request');
export const FORWARD_REPLIES = struct({ boot: f64 }, 'items');
export const FORWARD_REPLY = struct({ correlation: u32, bytes: u32 }, 'answer; the next item');
const REQUEST = FORWARD.fields;
const PIECE = FORWARD_PIECE.fields;
const ANSWER = FORWARD_REPLY.fields;

/** Payload bytes of one request among others. */
export function forwardBytes(bytes: Uint8Array): number {
  return FORWARD.size + bytes.length;
}

export function encodeForwards(items: readonly Forward[]): Uint8Array {
  let size = FRAME_HEAD_BYTES;
  for (const { bytes } of items) size += FORWARD.size + bytes.length;
  const writer = new Writer(new Uint8Array(size), FRAME_HEAD_BYTES);
  for (const { correlation, group, bytes } of items) {
    writer.open(FORWARD);
    writer.set(REQUEST.correlation, correlation);
    writer.set(REQUEST.group, group);
    writer.set(REQUEST.bytes, bytes.length);
    writer.raw(bytes);
  }
  return sealFrame(writer.finish(), FRAME_KIND.forward);
}

/** Calls `visit` for each request, with a view into the frame. False: damaged; what was visited before was good. */
export function decodeForwards(
  payload: Uint8Array,
  visit: (correlation: number, group: number, bytes: Uint8Array) => void,
): boolean {
  const reader = new Reader(payload);
  do {
    reader.open(FORWARD);
    const correlation = reader.get(REQUEST.correlation);
    const group = reader.get(REQUEST.group);
    const bytes = reader.bytes(reader.get(REQUEST.bytes));
    if (reader.bad) return false;
    visit(correlation, group, bytes);
  } while (reader.leftBytes > 0);
  return true;
}

/** Up to `bytesMax` bytes of a large request from `at` on. */
export function encodeForwardPiece({ correlation, group, bytes }: Forward, at: number, bytesMax: number): Uint8Array {
  const piece = bytes.subarray(at, at + bytesMax);
  const writer = new Writer(new Uint8Array(FRAME_HEAD_BYTES + FORWARD_PIECE.size + piece.length), FRAME_HEAD_BYTES);
  writer.open(FORWARD_PIECE);
  writer.set(PIECE.correlation, correlation);
  writer.set(PIECE.group, group);
  writer.set(PIECE.totalBytes, bytes.length);
  writer.set(PIECE.at, at);
  writer.raw(piece);
  return sealFrame(writer.finish(), FRAME_KIND.forwardPiece);
}

export interface ForwardPiece extends Forward {
  readonly totalBytes: number;
  readonly at: number;
}

/** `bytes` is a view into the frame. Undefined: damaged. */
export function decodeForwardPiece(payload: Uint8Array): ForwardPiece | undefined {
  const reader = new Reader(payload);
  const head = reader.record(FORWARD_PIECE);
  const bytes = reader.bytes(reader.leftBytes);
  const isWithin = bytes.length > 0 && head.at + bytes.length <= head.totalBytes;
  return reader.bad || !isWithin || head.totalBytes > FRAME_PAYLOAD_BYTES_MAX ? undefined : { ...head, bytes };
}

/**
 * `boot`: the
 * requester's run; after a restart it may use the same correlations for something else.
 */
export function encodeForwardReplies(boot: number, items: readonly ForwardReply[]): Uint8Array {
  let size = FRAME_HEAD_BYTES + FORWARD_REPLIES.size;
  for (const { bytes } of items) size += FORWARD_REPLY.size + bytes.length;
  const writer = new Writer(new Uint8Array(size), FRAME_HEAD_BYTES);
  writer.record(FORWARD_REPLIES, { boot });
  for (const { correlation, bytes } of items) {
    writer.open(FORWARD_REPLY);
    writer.set(ANSWER.correlation, correlation);
    writer.set(ANSWER.bytes, bytes.length);
    writer.raw(bytes);
  }
  return sealFrame(writer.finish(), FRAME_KIND.forwardReply);
}

/** Decodes replies by the rules of decodeForwards. */
export function decodeForwardReplies(
  payload: Uint8Array,
  visit: (boot: number, correlation: number, bytes: Uint8Array) => void,
): boolean {
  const reader = new Reader(payload);
  const { boot } = reader.record(FORWARD_REPLIES);
  do {
    reader.open(FORWARD_REPLY);
    const correlation = reader.get(ANSWER.correlation);
    const bytes = reader.bytes(reader.get(ANSWER.bytes));
    if (reader.bad) return false;
    visit(boot, correlation, bytes);
  } while (reader.leftBytes > 0);
  return true;
}
