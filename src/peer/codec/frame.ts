/**
 * One frame between two shards of different nodes, little-endian:
 *
 *   payloadBytes u32 | crc32c u32 | kind u8 | zero u8 x 3 | payload
 *
 * The checksum covers everything behind itself, so a damaged kind is noticed too. A damaged length shows as a wrong
 * checksum of what lies there. Either way the connection is over: nothing behind the damage can be trusted.
 */
import { assert } from '../../base/assert.ts';
import { ENTRY_BYTES_MAX } from '../../base/limits.ts';
import { crc32c } from '../../base/crc32c.ts';

export const FRAME_HEAD_BYTES = 12;
const CRC_AT = 4;
const CRC_FROM = 8;

/** Payload bound. An entry never spans frames, so the largest one has to fit, with the message around it. */
export const FRAME_PAYLOAD_BYTES_MAX = 64 * 1024 * 1024;
/**
 * And of a frame in pieces. The first release put all that waited for an election into one entry, on any node what five nodes may
 * keep for a leader; such an entry in a log still has to reach the others.
 */
export const LARGE_PAYLOAD_BYTES_MAX = 512 * 1024 * 1024;
assert(FRAME_PAYLOAD_BYTES_MAX >= ENTRY_BYTES_MAX + 1024 * 1024, 'the largest entry fits in a frame');

/** All that a turn has for this peer: messages of many groups. */
export const FRAME_RAFT = 1;
/** A request for the leader's shard, and the answer to it. */
export const FRAME_FORWARD = 2;
export const FRAME_FORWARD_REPLY = 3;
export const FRAME_SNAPSHOT_BEGIN = 4;
export const FRAME_SNAPSHOT_CHUNK = 5;
export const FRAME_SNAPSHOT_END = 6;
/** Receiver to sender: how far it is, or how it ended. */
export const FRAME_SNAPSHOT_ACK = 7;
/** Connector to acceptor: nothing, or HOST:PORT where its shard 0 listens. Answered by a PONG on the same connection. */
export const FRAME_PING = 8;
export const FRAME_PONG = 9;
/**
 * From protocol 3 on: the next bytes of a second stream of frames, the large ones, so that small ones get between. The frames in
 * it are all of the kinds above but PING and PONG.
 */
export const FRAME_PIECE = 10;
const FRAME_KIND_MAX = FRAME_PIECE;

export type FrameKind = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10;

/** What of a received frame is not as it must be. */
export type FrameFault = 'oversized frame' | 'wrong checksum' | 'unknown frame kind';

/** Gets a frame; `payload` is a view that is overwritten after the call. */
export type FrameSink = (kind: FrameKind, payload: Uint8Array) => void;

/** Fills in the head of a frame whose payload lies behind FRAME_HEAD_BYTES. */
export function sealFrame(frame: Uint8Array, kind: FrameKind): Uint8Array {
  const payloadBytes = frame.length - FRAME_HEAD_BYTES;
  assert(payloadBytes >= 0 && payloadBytes <= LARGE_PAYLOAD_BYTES_MAX, `a frame of ${payloadBytes} bytes`);
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  view.setUint32(0, payloadBytes, true);
  view.setUint32(CRC_FROM, kind, true);
  view.setUint32(CRC_AT, crc32c(view, CRC_FROM, frame.length), true);
  return frame;
}

/** The bytes of a large frame from `at` on, up to `bytesMax` of them, as a frame of their own. */
export function pieceOf(frame: Uint8Array, at: number, bytesMax: number): Uint8Array {
  const bytes = frame.subarray(at, at + bytesMax);
  const piece = new Uint8Array(FRAME_HEAD_BYTES + bytes.length);
  piece.set(bytes, FRAME_HEAD_BYTES);
  return sealFrame(piece, FRAME_PIECE);
}

export function frameKind(frame: Uint8Array): number {
  return frame[CRC_FROM] as number;
}

/** The kind of the whole frame [offset, end), or what is wrong with it. */
export function checkFrame(view: DataView, offset: number, end: number): FrameKind | FrameFault {
  if (view.getUint32(offset + CRC_AT, true) !== crc32c(view, offset + CRC_FROM, end)) return 'wrong checksum';
  const kind = view.getUint32(offset + CRC_FROM, true);
  return kind >= FRAME_RAFT && kind <= FRAME_KIND_MAX ? (kind as FrameKind) : 'unknown frame kind';
}
