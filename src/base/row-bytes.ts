/** Rows of a group as a byte string: keyBytes u16, valueBytes u32, key without its two-byte prefix, value; repeated. */
import { assert } from './assert.ts';

const HEAD_BYTES = 6;
const PREFIX_BYTES = 2;

export interface RowBytes {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

export function rowSize(key: Uint8Array, value: Uint8Array): number {
  return HEAD_BYTES + key.length - PREFIX_BYTES + value.length;
}

/** Writes a row at `at`; `key` is the complete key. Returns the size. */
export function writeRow(target: Uint8Array, at: number, key: Uint8Array, value: Uint8Array): number {
  const view = new DataView(target.buffer, target.byteOffset);
  const keyBytes = key.length - PREFIX_BYTES;
  view.setUint16(at, keyBytes, true);
  view.setUint32(at + 2, value.length, true);
  target.set(key.subarray(PREFIX_BYTES), at + HEAD_BYTES);
  target.set(value, at + HEAD_BYTES + keyBytes);
  return HEAD_BYTES + keyBytes + value.length;
}

/** The rows of `bytes`, with keys under `prefix`. */
export function* eachRow(bytes: Uint8Array, prefix: number): IterableIterator<RowBytes> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length;) {
    assert(at + HEAD_BYTES <= bytes.length, 'a row has a head');
    const keyBytes = view.getUint16(at, true);
    const valueBytes = view.getUint32(at + 2, true);
    at += HEAD_BYTES;
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
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  while (at + HEAD_BYTES <= bytes.length) {
    const keyBytes = view.getUint16(at, true);
    if (keyBytes === 0) return false;
    at += HEAD_BYTES + keyBytes + view.getUint32(at + 2, true);
  }
  return at === bytes.length;
}
