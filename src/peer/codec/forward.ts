/** Requests sent to the leader's shard, and their answers; both opaque here. All those of a turn share one frame. */
import { Reader, Writer } from '../../base/cursor.ts';
import { f64, struct, u16, u32 } from '../../base/struct.ts';
import { FRAME_FORWARD, FRAME_FORWARD_REPLY, FRAME_HEAD_BYTES, sealFrame } from './frame.ts';

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
export const FORWARD_REPLIES = struct({ boot: f64 }, 'items');
export const FORWARD_REPLY = struct({ correlation: u32, bytes: u32 }, 'answer; the next item');
const REQUEST = FORWARD.fields;
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
  return sealFrame(writer.finish(), FRAME_FORWARD);
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
  return sealFrame(writer.finish(), FRAME_FORWARD_REPLY);
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
