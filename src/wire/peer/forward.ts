/** A request that travels to the leader's shard, and its answer; both opaque here. */
import { Reader, Writer } from './cursor.ts';
import { FRAME_FORWARD, FRAME_FORWARD_REPLY, FRAME_HEAD_BYTES, sealFrame } from './frame.ts';

export interface Forward {
  /** The asker's number for this request, unique among those that wait. */
  readonly correlation: number;
  readonly group: number;
  /** A view into the frame. */
  readonly bytes: Uint8Array;
}

export interface ForwardReply {
  readonly correlation: number;
  /** Run of the asker that the answer is meant for: a restarted one may use the same correlation for something else. */
  readonly boot: number;
  /** A view into the frame. */
  readonly bytes: Uint8Array;
}

/** FORWARD: correlation u32 | group u16 | request bytes. */
export function encodeForward({ correlation, group, bytes }: Forward): Uint8Array {
  const writer = new Writer(new Uint8Array(FRAME_HEAD_BYTES + 6 + bytes.length), FRAME_HEAD_BYTES);
  writer.u32(correlation);
  writer.u16(group);
  writer.raw(bytes);
  return sealFrame(writer.finish(), FRAME_FORWARD);
}

export function decodeForward(payload: Uint8Array): Forward | undefined {
  const reader = new Reader(payload);
  const forward = { correlation: reader.u32(), group: reader.u16(), bytes: reader.rest() };
  return reader.bad ? undefined : forward;
}

/** FORWARD_REPLY: correlation u32 | boot f64 | answer bytes. */
export function encodeForwardReply({ correlation, boot, bytes }: ForwardReply): Uint8Array {
  const writer = new Writer(new Uint8Array(FRAME_HEAD_BYTES + 12 + bytes.length), FRAME_HEAD_BYTES);
  writer.u32(correlation);
  writer.int53(boot);
  writer.raw(bytes);
  return sealFrame(writer.finish(), FRAME_FORWARD_REPLY);
}

export function decodeForwardReply(payload: Uint8Array): ForwardReply | undefined {
  const reader = new Reader(payload);
  const reply = { correlation: reader.u32(), boot: reader.int53(), bytes: reader.rest() };
  return reader.bad ? undefined : reply;
}
