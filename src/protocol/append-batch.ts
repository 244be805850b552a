/**
 * The body of an append-batch: frames, each with a length of four bytes, big-endian, and that many bytes. In the log
 * the frames of a JSON stream hold normalised lines, and the command's record ends count from the start of the payload.
 */
import { byteAt } from '../base/bytes.ts';
import { BATCH_FRAMES_MAX } from '../base/limits.ts';
import { CLIENT_BYTES, command, numbersIn } from './operation.ts';
import { APPEND_FIELDS } from './append.ts';

/** Several appends in one request, with a result each. */
export const appendBatch = command({
  number: 8,
  ...CLIENT_BYTES,
  body: 'frames',
  mayBringNoRecords: false,
  createsStream: false,
  request: APPEND_FIELDS,
  /** The body is the client's JSON array. */
  result: numbersIn({ framesRefused: 'c' }),
});

export const FRAME_HEAD_BYTES = 4;

export type BatchShape = 'ok' | 'empty' | 'truncated' | 'too-many';

/** Where the frame at `at` ends; beyond the end of `bytes` when it is cut short. */
export function frameEnd(bytes: Uint8Array, at: number): number {
  return at + FRAME_HEAD_BYTES + frameBytes(bytes, at);
}

export function frameBytes(bytes: Uint8Array, at: number): number {
  const high = (byteAt(bytes, at) << 8) | byteAt(bytes, at + 1);
  return high * 0x1_0000 + ((byteAt(bytes, at + 2) << 8) | byteAt(bytes, at + 3));
}

export function writeFrameHead(bytes: Uint8Array, at: number, size: number): void {
  bytes[at] = size >>> 24;
  bytes[at + 1] = (size >>> 16) & 0xff;
  bytes[at + 2] = (size >>> 8) & 0xff;
  bytes[at + 3] = size & 0xff;
}

/** Whether the body consists of complete frames, at least one and at most BATCH_FRAMES_MAX. */
export function batchShape(body: Uint8Array): BatchShape {
  let frames = 0;
  for (let at = 0; at < body.length; at = frameEnd(body, at)) {
    if (body.length - at < FRAME_HEAD_BYTES || frameEnd(body, at) > body.length) return 'truncated';
    frames++;
    if (frames > BATCH_FRAMES_MAX) return 'too-many';
  }
  return frames === 0 ? 'empty' : 'ok';
}

/** Number of frames in a valid body. */
export function frameCount(body: Uint8Array): number {
  let frames = 0;
  for (let at = 0; at < body.length; at = frameEnd(body, at)) frames++;
  return frames;
}

/** Joins frames into a body. */
export function joinFrames(frames: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(frames.reduce((sum, frame) => sum + FRAME_HEAD_BYTES + frame.length, 0));
  let at = 0;
  for (const frame of frames) {
    writeFrameHead(bytes, at, frame.length);
    bytes.set(frame, at + FRAME_HEAD_BYTES);
    at += FRAME_HEAD_BYTES + frame.length;
  }
  return bytes;
}
