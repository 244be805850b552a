/** Batches of appends, and what their answers say about each of them. */
import { Buffer } from 'node:buffer';
import { FRAME_HEAD_BYTES, frameEnd } from '../../src/protocol/append-batch.ts';
import type { Reply } from '../../src/protocol/reply.ts';

interface Result {
  readonly status: number;
  readonly stream_record_start?: number;
  readonly stream_record_next?: number;
}

export interface Accepted {
  /** Which one of the batch. */
  readonly i: number;
  readonly frame: Uint8Array;
  /** Bytes, or records of a JSON stream. */
  readonly start: number;
  readonly next: number;
}

/** The frames of a batch that were taken. `reply` is no duplicate's. */
export function acceptedFrames(batch: Uint8Array, reply: Reply): Accepted[] {
  const results = JSON.parse(Buffer.from(reply.body ?? []).toString()) as Result[];
  const accepted: Accepted[] = [];
  let offset = reply.startOffset;
  for (let at = 0, i = 0; at < batch.length; at = frameEnd(batch, at), i++) {
    const frame = batch.subarray(at + FRAME_HEAD_BYTES, frameEnd(batch, at));
    const { status, stream_record_start: start, stream_record_next: next } = results[i] as Result;
    if (status !== 204) continue;
    if (start !== undefined && next !== undefined) accepted.push({ i, frame, start, next });
    else accepted.push({ i, frame, start: offset, next: offset + frame.length });
    offset += frame.length;
  }
  return accepted;
}
