/**
 * Finds the end of a MessagePack value without decoding it. A decoder trusts counts and sizes in a broken or hostile
 * file and would allocate more memory than exists. A value that passes here is complete and no larger than its bytes.
 */

import { byteAt } from '../../base/bytes.ts';

/** More bytes are needed to tell. */
export const INCOMPLETE = -1;
/** Not a value that a backup contains. */
export const IMPOSSIBLE = -2;

const DEPTH_MAX = 4;

/** The position after the value at `at`, or one of the two above. */
export function valueEnd(bytes: Uint8Array, at: number, depth = 0): number {
  if (depth > DEPTH_MAX) return IMPOSSIBLE;
  if (at >= bytes.length) return INCOMPLETE;
  const first = byteAt(bytes, at);
  if (first <= 0x7f || first >= 0xe0) return at + 1;
  if (first <= 0x8f) return items(bytes, at + 1, 2 * (first & 0x0f), depth);
  if (first <= 0x9f) return items(bytes, at + 1, first & 0x0f, depth);
  if (first <= 0xbf) return within(bytes, at + 1 + (first & 0x1f));
  if (first === 0xc0 || first === 0xc2 || first === 0xc3) return at + 1;
  const fixed = FIXED.get(first);
  if (fixed !== undefined) return within(bytes, at + 1 + fixed);
  const sized = SIZED.get(first);
  if (sized === undefined) return IMPOSSIBLE;
  if (at + 1 + sized.bytes > bytes.length) return INCOMPLETE;
  const size = uint(bytes, at + 1, sized.bytes);
  const start = at + 1 + sized.bytes;
  return sized.per === 0 ? within(bytes, start + size) : items(bytes, start, sized.per * size, depth);
}

/** floats and integers: bytes after the first one. */
const FIXED: ReadonlyMap<number, number> = new Map([
  [0xca, 4],
  [0xcb, 8],
  [0xcc, 1],
  [0xcd, 2],
  [0xce, 4],
  [0xcf, 8],
  [0xd0, 1],
  [0xd1, 2],
  [0xd2, 4],
  [0xd3, 8],
]);

/** bytes, texts, arrays, maps: bytes of the size field; values per unit of it, 0 = it counts bytes. */
const SIZED: ReadonlyMap<number, { readonly bytes: number; readonly per: number }> = new Map([
  [0xc4, { bytes: 1, per: 0 }],
  [0xc5, { bytes: 2, per: 0 }],
  [0xc6, { bytes: 4, per: 0 }],
  [0xd9, { bytes: 1, per: 0 }],
  [0xda, { bytes: 2, per: 0 }],
  [0xdb, { bytes: 4, per: 0 }],
  [0xdc, { bytes: 2, per: 1 }],
  [0xdd, { bytes: 4, per: 1 }],
  [0xde, { bytes: 2, per: 2 }],
  [0xdf, { bytes: 4, per: 2 }],
]);

function items(bytes: Uint8Array, start: number, count: number, depth: number): number {
  let at = start;
  for (let left = count; left > 0; left--) {
    at = valueEnd(bytes, at, depth + 1);
    if (at < 0) return at;
  }
  return at;
}

function within(bytes: Uint8Array, end: number): number {
  return end <= bytes.length ? end : INCOMPLETE;
}

function uint(bytes: Uint8Array, at: number, size: number): number {
  let value = 0;
  for (let i = at; i < at + size; i++) value = value * 256 + byteAt(bytes, i);
  return value;
}
