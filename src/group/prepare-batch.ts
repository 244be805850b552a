/** Normalises the JSON frames of an append-batch: all of them or none. */
import type { ErrorCode } from '../base/errors.ts';
import { RECORDS_PER_REQUEST_MAX } from '../base/limits.ts';
import type { JsonNormalizer } from '../stream/json/json-records.ts';
import { FRAME_HEAD_BYTES, frameEnd, joinFrames } from '../protocol/append-batch.ts';

export type BatchResult =
  | { readonly ok: true; readonly bytes: Uint8Array; readonly ends: readonly number[] }
  | { readonly ok: false; readonly code: ErrorCode; readonly reason: string };

const NOTHING = new Uint8Array(0);

/**
 * The frames of `payload` with normalised lines, and the record ends in them. Empty frames stay, because each is
 * refused individually.
 */
export function normalizeBatch(payload: Uint8Array, json: JsonNormalizer): BatchResult {
  const frames: Uint8Array[] = [];
  const ends: number[] = [];
  let front = 0;
  for (let at = 0; at < payload.length; at = frameEnd(payload, at)) {
    const body = payload.subarray(at + FRAME_HEAD_BYTES, frameEnd(payload, at));
    front += FRAME_HEAD_BYTES;
    if (body.length === 0) {
      frames.push(NOTHING);
      continue;
    }
    const result = json.records(body);
    const which = `frame ${frames.length}`;
    if (!result.ok) return { ok: false, code: 'INVALID_JSON', reason: `${which}: ${result.reason}` };
    if (result.ends.length === 0) return { ok: false, code: 'EMPTY_JSON_ARRAY', reason: which };
    for (const end of result.ends) ends.push(front + end);
    if (ends.length > RECORDS_PER_REQUEST_MAX) return { ok: false, code: 'TOO_MANY_RECORDS', reason: '' };
    frames.push(result.bytes);
    front += result.bytes.length;
  }
  return { ok: true, bytes: joinFrames(frames), ends };
}
