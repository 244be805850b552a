/** Rows of a group as a byte string: SENT_ROW, key without its two-byte prefix, value; repeated. */
import { assert } from './assert.ts';
import { viewOf } from './bytes.ts';
import { struct, u16, u32 } from './struct.ts';

export const SENT_ROW = struct({ keyBytes: u16, valueBytes: u32 }, 'key without its prefix, value; the next row');
const HEAD = SENT_ROW.fields;
const PREFIX_BYTES = 2;

export interface RowBytes {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

export function rowSize(key: Uint8Array, value: Uint8Array): number {
  return SENT_ROW.size + key.length - PREFIX_BYTES + value.length;
}

/** Writes a row at `at`; `key` is the complete key. Returns the size. */
export function writeRow(target: Uint8Array, at: number, key: Uint8Array, value: Uint8Array): number {
  const view = viewOf(target);
  const keyBytes = key.length - PREFIX_BYTES;
  HEAD.keyBytes.set(view, at, keyBytes);
  HEAD.valueBytes.set(view, at, value.length);
  target.set(key.subarray(PREFIX_BYTES), at + SENT_ROW.size);
  target.set(value, at + SENT_ROW.size + keyBytes);
  return SENT_ROW.size + keyBytes + value.length;
}

/** The rows of `bytes`, with keys under `prefix`. */
export function* eachRow(bytes: Uint8Array, prefix: number): IterableIterator<RowBytes> {
  const view = viewOf(bytes);
  for (let at = 0; at < bytes.length;) {
    assert(at + SENT_ROW.size <= bytes.length, 'a row has a head');
    const keyBytes = HEAD.keyBytes.get(view, at);
    const valueBytes = HEAD.valueBytes.get(view, at);
    at += SENT_ROW.size;
    assert(at + keyBytes + valueBytes <= bytes.length, 'a row is whole');
    const key = new Uint8Array(PREFIX_BYTES + keyBytes);
    key[0] = prefix >> 8;
    key[1] = prefix & 0xff;
    key.set(bytes.subarray(at, at + keyBytes), PREFIX_BYTES);
    yield { key, value: bytes.subarray(at + keyBytes, at + keyBytes + valueBytes) };
    at += keyBytes + valueBytes;
  }
}

/** Whether bytes from outside are complete rows. */
export function areRows(bytes: Uint8Array): boolean {
  const view = viewOf(bytes);
  let at = 0;
  while (at + SENT_ROW.size <= bytes.length) {
    const keyBytes = HEAD.keyBytes.get(view, at);
    if (keyBytes === 0) return false;
    at += SENT_ROW.size + keyBytes + HEAD.valueBytes.get(view, at);
  }
  return at === bytes.length;
}
