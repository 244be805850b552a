/**
 * One frame between two shards of different nodes. The checksum covers everything after itself, so it detects a damaged
 * kind too. A damaged length gives a wrong checksum. Both close the connection: nothing
 * after the damage can be trusted.
 */
import { crc32c } from '@node-rs/crc32';
import { byteAt, viewOf } from '../../base/bytes.ts';
import { assert } from '../../base/assert.ts';
import { ENTRY_BYTES_MAX } from '../../base/limits.ts';
import { struct, u32 } from '../../base/struct.ts';

export const FRAME = struct({ payloadBytes: u32, crc32c: u32, kind: u32 }, 'payload');
export const FRAME_HEAD_BYTES = FRAME.size;
const HEAD = FRAME.fields;
/** The sum begins right after itself. */
const SUMMED_AT = HEAD.crc32c.end;

/** Payload bound. An entry never spans frames, so the largest one must fit, with the message around it. */
export const FRAME_PAYLOAD_BYTES_MAX = 64 * 1024 * 1024;
/**
 * Bound for a frame in pieces. The first release put everything that waited for an election into one entry: up to what
 * five nodes may keep for a leader. Such an entry in a log must still reach the other nodes.
 */
export const LARGE_PAYLOAD_BYTES_MAX = 512 * 1024 * 1024;
assert(FRAME_PAYLOAD_BYTES_MAX >= ENTRY_BYTES_MAX + 1024 * 1024, 'the largest entry fits in a frame');

export const FRAME_KIND = {
  /** A turn's messages of many groups for this peer. */
  raft: 1,
  /** A request for the leader's shard, and the answer to it. */
  forward: 2,
  forwardReply: 3,
  snapshotBegin: 4,
  snapshotChunk: 5,
  snapshotEnd: 6,
  /** Receiver to sender: its progress, or the result. */
  snapshotAck: 7,
  /** Connector to acceptor: empty, or the HOST:PORT of its shard 0. Answered by a PONG on the same connection. */
  ping: 8,
  pong: 9,
  /**
   * From protocol 3 on: a piece of a second stream, of large frames, so that small ones can overtake them. It may hold
   * all kinds above except PING and PONG.
   */
  piece: 10,
  /** From protocol 4 on: a piece of a large request, between which all other frames pass. */
  forwardPiece: 11,
} as const;
const FRAME_KIND_MAX = FRAME_KIND.forwardPiece;

export type FrameKind = (typeof FRAME_KIND)[keyof typeof FRAME_KIND];

/** The fault of a received frame. */
export type FrameFault = 'oversized frame' | 'wrong checksum' | 'unknown frame kind';

/** Receives a frame; `payload` is a view that is overwritten after the call. */
export type FrameSink = (kind: FrameKind, payload: Uint8Array) => void;

/** Fills in the header of a frame whose payload starts at FRAME_HEAD_BYTES. */
export function sealFrame(frame: Uint8Array, kind: FrameKind): Uint8Array {
  const payloadBytes = frame.length - FRAME_HEAD_BYTES;
  assert(payloadBytes >= 0 && payloadBytes <= LARGE_PAYLOAD_BYTES_MAX, `a frame of ${payloadBytes} bytes`);
  const view = viewOf(frame);
  HEAD.payloadBytes.set(view, 0, payloadBytes);
  HEAD.kind.set(view, 0, kind);
  HEAD.crc32c.set(view, 0, crc32c(frame.subarray(SUMMED_AT)));
  return frame;
}

/** Up to `bytesMax` bytes of a large frame from `at` on, as a frame of their own. */
export function pieceOf(frame: Uint8Array, at: number, bytesMax: number): Uint8Array {
  const bytes = frame.subarray(at, at + bytesMax);
  const piece = new Uint8Array(FRAME_HEAD_BYTES + bytes.length);
  piece.set(bytes, FRAME_HEAD_BYTES);
  return sealFrame(piece, FRAME_KIND.piece);
}

/** Size of the payload of the frame whose head is at `at`. */
export function payloadBytesAt(bytes: Uint8Array, at: number): number {
  const { payloadBytes } = HEAD;
  return payloadBytes.get(new DataView(bytes.buffer, bytes.byteOffset + at, payloadBytes.end), 0);
}

export function frameKind(frame: Uint8Array): number {
  return byteAt(frame, HEAD.kind.at);
}

/** The kind of the complete frame [offset, end), or its fault. */
export function checkFrame(view: DataView, offset: number, end: number): FrameKind | FrameFault {
  const summed = new Uint8Array(view.buffer, view.byteOffset + offset + SUMMED_AT, end - offset - SUMMED_AT);
  if (HEAD.crc32c.get(view, offset) !== crc32c(summed)) return 'wrong checksum';
  const kind = HEAD.kind.get(view, offset);
  return kind >= FRAME_KIND.raft && kind <= FRAME_KIND_MAX ? (kind as FrameKind) : 'unknown frame kind';
}
