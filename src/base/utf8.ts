/**
 * UTF-8 checks and conversions. Strict means RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF,
 * nothing cut off. Every function also accepts views of shared memory (TextDecoder refuses them).
 */

import { byteAt } from './bytes.ts';

/** UTF-16 units up to which an ASCII loop (1.5 ns a unit) beats TextEncoder (0.5 to 0.9 µs a call, Node 20). */
const ENCODE_LOOP_UNITS_MAX = 256;
/** Bytes up to which joining characters (8 ns each) beats TextDecoder (50 ns a call, Node 20). */
const DECODE_LOOP_BYTES_MAX = 8;

const encoder = new TextEncoder();
// ignoreBOM keeps a leading U+FEFF: what was sent comes back.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Size in bytes (2, 3 or 4) of the multi-byte sequence that begins at `at`, or 0 when it is invalid or cut off by
 * `end`. In the table of RFC 3629 the second byte's range depends on the first, which excludes overlong forms,
 * surrogates and values above U+10FFFF.
 */
export function utf8SequenceBytes(bytes: Uint8Array, at: number, end: number): number {
  const first = byteAt(bytes, at);
  if (first < 0xc2 || first > 0xf4 || at + 1 >= end) return 0;
  const second = byteAt(bytes, at + 1);
  if (first < 0xe0) return (second & 0xc0) === 0x80 ? 2 : 0;
  const lowest = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const highest = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  if (second < lowest || second > highest) return 0;
  if (at + 2 >= end || (byteAt(bytes, at + 2) & 0xc0) !== 0x80) return 0;
  if (first < 0xf0) return 3;
  return at + 3 < end && (byteAt(bytes, at + 3) & 0xc0) === 0x80 ? 4 : 0;
}

/** True when all of `bytes` is strict UTF-8. */
export function isValidUtf8(bytes: Uint8Array): boolean {
  const end = bytes.length;
  let at = 0;
  while (at < end) {
    // Eight at a time: most payloads are ASCII, and one test on the OR replaces eight.
    while (at + 8 <= end) {
      const high =
        byteAt(bytes, at) |
        byteAt(bytes, at + 1) |
        byteAt(bytes, at + 2) |
        byteAt(bytes, at + 3) |
        byteAt(bytes, at + 4) |
        byteAt(bytes, at + 5) |
        byteAt(bytes, at + 6) |
        byteAt(bytes, at + 7);
      if (high >= 0x80) break;
      at += 8;
    }
    if (at >= end) return true;
    if (byteAt(bytes, at) < 0x80) {
      at++;
      continue;
    }
    const size = utf8SequenceBytes(bytes, at, end);
    if (size === 0) return false;
    at += size;
  }
  return true;
}

/** UTF-8 of `text`; lone surrogates become U+FFFD. */
export function encodeUtf8(text: string): Uint8Array {
  const length = text.length;
  if (length > ENCODE_LOOP_UNITS_MAX) return encoder.encode(text);
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) return encoder.encode(text);
    bytes[i] = code;
  }
  return bytes;
}

/** Text of bytes [start, end); invalid sequences become U+FFFD, a byte order mark is kept. */
export function decodeUtf8(bytes: Uint8Array, start = 0, end = bytes.length): string {
  if (end - start <= DECODE_LOOP_BYTES_MAX) {
    let text = '';
    let at = start;
    for (; at < end; at++) {
      const byte = byteAt(bytes, at);
      if (byte >= 0x80) break;
      text += String.fromCharCode(byte);
    }
    if (at === end) return text;
  }
  const shared = !(bytes.buffer instanceof ArrayBuffer);
  return decoder.decode(shared ? bytes.slice(start, end) : bytes.subarray(start, end));
}

/** As decodeUtf8, but undefined when the bytes are not strict UTF-8. */
export function decodeUtf8Strict(bytes: Uint8Array): string | undefined {
  return isValidUtf8(bytes) ? decodeUtf8(bytes) : undefined;
}

/**
 * Size of the largest prefix of `bytes`, at most `limit`, that does not end inside a character. In valid UTF-8 it drops
 * at most 3 bytes; bytes that are not UTF-8 are not held back.
 */
export function utf8PrefixBytes(bytes: Uint8Array, limit: number = bytes.length): number {
  const end = Math.min(limit, bytes.length);
  const lowest = Math.max(0, end - 3);
  for (let at = end - 1; at >= lowest; at--) {
    const byte = byteAt(bytes, at);
    if (byte < 0x80) return end;
    if (byte < 0xc0) continue;
    const size = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : byte < 0xf8 ? 4 : 1;
    return at + size > end ? at : end;
  }
  return end;
}
