/**
 * A large JSON body that the node which received it has checked in its pool (gateway/json-bodies.ts), in place of the
 * body. The leader trusts it: it comes from its own process or from a peer that knows the cluster's secret.
 *
 *   records: lines, where each ends (u32 each), CHECKED_BODY     refused: the reason, CHECKED_BODY
 *
 * The size of the body as it was sent decides about quotas and bounds, as for any other body.
 */
import { viewOf } from '../base/bytes.ts';
import { type ErrorCode, errorCode, errorNumber } from '../base/errors.ts';
import { struct, u32 } from '../base/struct.ts';
import { decodeUtf8, encodeUtf8 } from '../base/utf8.ts';

/**
 * `count`: how many records there are; or the number of the refusal.
 *
 * @internal
 */
export const CHECKED_BODY = struct({ count: u32, sentBytes: u32 });
const { count: COUNT, sentBytes: SENT } = CHECKED_BODY.fields;
const END_BYTES = 4;
const NEWLINE = 0x0a;

/** Marks of a request: its payload is the body itself, its records, or its refusal. */
export const BODY_AS_SENT = 0;
export const BODY_RECORDS = 1;
export const BODY_REFUSED = 2;
export type BodyMark = 0 | 1 | 2;

export interface BodyRecords {
  /** Normalised JSON, each record a line that ends in \n. */
  readonly bytes: Uint8Array;
  /** End of each record in `bytes`. */
  readonly ends: readonly number[] | Uint32Array;
}

export interface BodyRefusal {
  readonly code: ErrorCode;
  readonly reason: string;
}

/** Refusals of the check. */
const REFUSALS: ReadonlySet<string> = new Set<ErrorCode>(['INVALID_JSON', 'EMPTY_JSON_ARRAY', 'TOO_MANY_RECORDS']);

export function encodeRecords({ bytes, ends }: BodyRecords, sentBytes: number): Uint8Array<ArrayBuffer> {
  const endsBytes = END_BYTES * ends.length;
  const payload = new Uint8Array(bytes.length + endsBytes + CHECKED_BODY.size);
  payload.set(bytes);
  const view = viewOf(payload);
  let at = bytes.length;
  for (const end of ends) {
    view.setUint32(at, end, true);
    at += END_BYTES;
  }
  CHECKED_BODY.write(view, at, { count: ends.length, sentBytes });
  return payload;
}

export function encodeRefusal({ code, reason }: BodyRefusal, sentBytes: number): Uint8Array<ArrayBuffer> {
  const text = encodeUtf8(reason);
  const payload = new Uint8Array(text.length + CHECKED_BODY.size);
  payload.set(text);
  CHECKED_BODY.write(viewOf(payload), text.length, { count: errorNumber(code), sentBytes });
  return payload;
}

/** Size of the body as it was sent; `payload` is at least a CHECKED_BODY (isCheckedBody). */
export function sentBytes(payload: Uint8Array): number {
  return SENT.get(viewOf(payload), payload.length - CHECKED_BODY.size);
}

/** False: no node of this cluster wrote it. */
export function isCheckedBody(payload: Uint8Array, mark: number): boolean {
  if (payload.length < CHECKED_BODY.size) return false;
  if (mark === BODY_REFUSED) return true;
  // A body shrinks, but for the \n of a single value.
  return mark === BODY_RECORDS && linesBytes(payload) >= 0 && linesBytes(payload) <= sentBytes(payload) + 1;
}

function linesBytes(payload: Uint8Array): number {
  const count = COUNT.get(viewOf(payload), payload.length - CHECKED_BODY.size);
  return payload.length - CHECKED_BODY.size - END_BYTES * count;
}

/** The lines are a view. Undefined: the ends do not fit to them. */
export function decodeRecords(payload: Uint8Array): BodyRecords | undefined {
  const size = linesBytes(payload);
  const view = viewOf(payload);
  const ends = new Uint32Array((payload.length - CHECKED_BODY.size - size) / END_BYTES);
  let last = 0;
  for (let i = 0; i < ends.length; i++) {
    const end = view.getUint32(size + END_BYTES * i, true);
    if (end <= last || end > size) return undefined;
    ends[i] = last = end;
  }
  return last === size ? { bytes: payload.subarray(0, size), ends } : undefined;
}

export function decodeRefusal(payload: Uint8Array): BodyRefusal {
  const textBytes = payload.length - CHECKED_BODY.size;
  const code = errorCode(COUNT.get(viewOf(payload), textBytes));
  const reason = decodeUtf8(payload.subarray(0, textBytes));
  return { code: REFUSALS.has(code) ? code : 'INVALID_JSON', reason };
}

/** The records as a body that a node of the version before takes: a JSON array of them. */
export function asJsonArray({ bytes, ends }: BodyRecords): Uint8Array {
  if (ends.length === 0) return encodeUtf8('[]');
  const body = new Uint8Array(bytes.length + 1);
  body[0] = 0x5b;
  body.set(bytes, 1);
  for (const end of ends) if (body[end] === NEWLINE) body[end] = 0x2c;
  body[bytes.length] = 0x5d;
  return body;
}
