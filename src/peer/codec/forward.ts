/** Requests sent to the leader's shard, and their answers; both opaque here. All those of a turn share one frame. */
import { Reader, Writer } from '../../base/cursor.ts';
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

const FORWARD_HEAD_BYTES = 10;
const REPLY_HEAD_BYTES = 8;
const BOOT_BYTES = 8;

/** Payload bytes of one request among others. */
export function forwardBytes(bytes: Uint8Array): number {
  return FORWARD_HEAD_BYTES + bytes.length;
}

/** FORWARD: items until the end, each correlation u32 | group u16 | size u32 | request bytes. */
export function encodeForwards(items: readonly Forward[]): Uint8Array {
  let size = FRAME_HEAD_BYTES;
  for (const { bytes } of items) size += FORWARD_HEAD_BYTES + bytes.length;
  const writer = new Writer(new Uint8Array(size), FRAME_HEAD_BYTES);
  for (const { correlation, group, bytes } of items) {
    writer.u32(correlation);
    writer.u16(group);
    writer.u32(bytes.length);
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
    const correlation = reader.u32();
    const group = reader.u16();
    const bytes = reader.bytes(reader.u32());
    if (reader.bad) return false;
    visit(correlation, group, bytes);
  } while (reader.leftBytes > 0);
  return true;
}

/**
 * FORWARD_REPLY: boot f64 | items until the end, each correlation u32 | size u32 | answer bytes. `boot`: the
 * requester's run; after a restart it may use the same correlations for something else.
 */
export function encodeForwardReplies(boot: number, items: readonly ForwardReply[]): Uint8Array {
  let size = FRAME_HEAD_BYTES + BOOT_BYTES;
  for (const { bytes } of items) size += REPLY_HEAD_BYTES + bytes.length;
  const writer = new Writer(new Uint8Array(size), FRAME_HEAD_BYTES);
  writer.int53(boot);
  for (const { correlation, bytes } of items) {
    writer.u32(correlation);
    writer.u32(bytes.length);
    writer.raw(bytes);
  }
  return sealFrame(writer.finish(), FRAME_FORWARD_REPLY);
}

/** As decodeForwards. */
export function decodeForwardReplies(
  payload: Uint8Array,
  visit: (boot: number, correlation: number, bytes: Uint8Array) => void,
): boolean {
  const reader = new Reader(payload);
  const boot = reader.int53();
  do {
    const correlation = reader.u32();
    const bytes = reader.bytes(reader.u32());
    if (reader.bad) return false;
    visit(boot, correlation, bytes);
  } while (reader.leftBytes > 0);
  return true;
}
