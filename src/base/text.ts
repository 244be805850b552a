/**
 * UTF-8 text in frames, in plain JavaScript: TextDecoder refuses views of shared memory, and for names of a few dozen
 * characters a loop is faster than the call into native code.
 */

import { byteAt } from './bytes.ts';

/** Writes `text` as UTF-8 at `offset`; returns how many. Lone surrogates become U+FFFD, as TextEncoder does. */
export function writeText(bytes: Uint8Array, offset: number, text: string): number {
  let at = offset;
  for (let i = 0; i < text.length; i++) {
    let code = text.charCodeAt(i);
    if (code < 0x80) {
      bytes[at++] = code;
      continue;
    }
    if (code >= 0xd800 && code <= 0xdfff) {
      const low = i + 1 < text.length ? text.charCodeAt(i + 1) : 0;
      if (code <= 0xdbff && low >= 0xdc00 && low <= 0xdfff) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        i++;
      } else {
        code = 0xfffd;
      }
    }
    if (code < 0x800) {
      bytes[at++] = 0xc0 | (code >> 6);
    } else {
      if (code < 0x10000) {
        bytes[at++] = 0xe0 | (code >> 12);
      } else {
        bytes[at++] = 0xf0 | (code >> 18);
        bytes[at++] = 0x80 | ((code >> 12) & 0x3f);
      }
      bytes[at++] = 0x80 | ((code >> 6) & 0x3f);
    }
    bytes[at++] = 0x80 | (code & 0x3f);
  }
  return at - offset;
}

/** Exact UTF-8 size of `text` in bytes. */
export function textBytes(text: string): number {
  let size = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x80) size += 1;
    else if (code < 0x800) size += 2;
    else if (code >= 0xd800 && code <= 0xdbff && i + 1 < text.length && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) {
      size += 4;
      i++;
    } else size += 3;
  }
  return size;
}

// ignoreBOM keeps a leading U+FEFF: without it two names could become one.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Reads `length` bytes of UTF-8 at `offset`; works on shared memory. */
export function readText(bytes: Uint8Array, offset: number, length: number): string {
  let text = '';
  for (let i = offset; i < offset + length; i++) {
    const byte = byteAt(bytes, i);
    if (byte >= 0x80) return decoder.decode(bytes.slice(offset, offset + length));
    text += String.fromCharCode(byte);
  }
  return text;
}

/**
 * Compares in the order of the UTF-8 bytes, which is the order of the stores. UTF-16 order differs above U+FFFF, where
 * surrogates sort below U+E000 to U+FFFF.
 */
export function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left === right) continue;
    const leftAbove = (left & 0xf800) === 0xd800;
    const rightAbove = (right & 0xf800) === 0xd800;
    return leftAbove === rightAbove ? left - right : leftAbove ? 1 : -1;
  }
  return a.length - b.length;
}
