/** Hashes that need no BigInt: 64-bit arithmetic on two unsigned 32-bit halves. None of them resists an adversary. */
import { byteAt } from './bytes.ts';
import { assert } from './assert.ts';

/** Placement: hash modulo this; a bound keeps the arithmetic of `mod64` exact (well below 2^53). */
export const GROUP_COUNT_MAX = 4096;

// FNV-1a 64: offset basis 0xcbf29ce484222325, prime 2^40 + 0x1b3.
const FNV_BASIS_HIGH = 0xcbf29ce4;
const FNV_BASIS_LOW = 0x84222325;
const FNV_PRIME_LOW = 0x1b3;

/** The running hash. Module state instead of a returned pair: no allocation per byte, and nothing re-enters. */
let fnvHigh = 0;
let fnvLow = 0;

function fnvByte(byte: number): void {
  const low = fnvLow ^ byte;
  // low * 0x1b3 in two 16-bit steps keeps every product in 32 bits; 2^40 * low adds low << 8 to the high half.
  const bottom = (low & 0xffff) * FNV_PRIME_LOW;
  const top = (low >>> 16) * FNV_PRIME_LOW + (bottom >>> 16);
  fnvHigh = (Math.imul(fnvHigh, FNV_PRIME_LOW) + (top >>> 16) + (low << 8)) | 0;
  fnvLow = (top << 16) | (bottom & 0xffff);
}

/** Feeds the UTF-8 bytes of `text`; a lone surrogate counts as U+FFFD, as TextEncoder writes it. */
function fnvText(text: string): void {
  for (let i = 0; i < text.length; i++) {
    let code = text.charCodeAt(i);
    if (code < 0x80) {
      fnvByte(code);
      continue;
    }
    if (code >= 0xd800 && code <= 0xdfff) {
      const low = code <= 0xdbff && i + 1 < text.length ? text.charCodeAt(i + 1) : 0;
      if (low >= 0xdc00 && low <= 0xdfff) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        i++;
      } else {
        code = 0xfffd;
      }
    }
    if (code < 0x800) {
      fnvByte(0xc0 | (code >> 6));
    } else {
      if (code < 0x10000) {
        fnvByte(0xe0 | (code >> 12));
      } else {
        fnvByte(0xf0 | (code >> 18));
        fnvByte(0x80 | ((code >> 12) & 0x3f));
      }
      fnvByte(0x80 | ((code >> 6) & 0x3f));
    }
    fnvByte(0x80 | (code & 0x3f));
  }
}

/** (high * 2^32 + low) mod divisor, exact for divisors up to GROUP_COUNT_MAX: no intermediate exceeds 2^33. */
function mod64(high: number, low: number, divisor: number): number {
  const ofHigh = ((high >>> 0) % divisor) * (0x1_0000_0000 % divisor);
  return (ofHigh + ((low >>> 0) % divisor)) % divisor;
}

/**
 * The group of a stream: FNV-1a 64 over the UTF-8 of bucket, `/`, stream, modulo `groupCount`. It must
 * never change: another result would look for existing streams in the wrong group.
 */
export function fnv1a64mod(bucket: string, stream: string, groupCount: number): number {
  assert(
    Number.isInteger(groupCount) && groupCount >= 1 && groupCount <= GROUP_COUNT_MAX,
    `group count ${groupCount} is not in 1..${GROUP_COUNT_MAX}`,
  );
  fnvHigh = FNV_BASIS_HIGH | 0;
  fnvLow = FNV_BASIS_LOW | 0;
  fnvText(bucket);
  fnvByte(0x2f);
  fnvText(stream);
  return mod64(fnvHigh, fnvLow, groupCount);
}

/** A number from 0 to 2^32 - 1 for tables in memory, of text and numbers in place: nothing is allocated. */
export function hash32(seed: number, part: string | number): number {
  let hash = seed | 0;
  if (typeof part === 'number') {
    hash = Math.imul(hash ^ (part | 0), 0x85ebca6b);
    hash = Math.imul(hash ^ Math.floor(part / 0x1_0000_0000), 0xc2b2ae35);
  } else {
    for (let i = 0; i < part.length; i++) hash = Math.imul(hash ^ part.charCodeAt(i), 0x01000193);
  }
  return avalanche(hash ^ (typeof part === 'number' ? 1 : part.length)) >>> 0;
}

const NO_BYTES = new Uint8Array(0);

/** murmur3's 32-bit finaliser: every input bit flips every output bit with probability about one half. */
function avalanche(lane: number): number {
  let x = lane ^ (lane >>> 16);
  x = Math.imul(x, 0x85ebca6b);
  x ^= x >>> 13;
  x = Math.imul(x, 0xc2b2ae35);
  return x ^ (x >>> 16);
}

/** Two digits for each byte: four times as fast as toString(16) with padding, and every read makes an ETag. */
const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

function hexByte(value: number): string {
  return HEX[value & 0xff] as string;
}

function hex32(value: number): string {
  return hexByte(value >>> 24) + hexByte(value >>> 16) + hexByte(value >>> 8) + hexByte(value);
}

/**
 * A 64-bit fingerprint of numbers and bytes as 16 hexadecimal digits, for ETags. Two 32-bit halves in the manner of
 * murmur3, 8 bytes a round, each mixed with the other; the counts go into the end, so [1] + empty and empty + [1]
 * differ. Not a checksum for stored data and not safe against deliberate collisions. Numbers are integers of at most 53
 * bits (negative ones allowed above -2^53).
 */
export function hash64Hex(numbers: readonly number[], bytes: Uint8Array = NO_BYTES): string {
  let a = 0x9e3779b9 | 0;
  let b = 0x7f4a7c15 | 0;
  for (const value of numbers) {
    a = Math.imul(a ^ (value | 0), 0xcc9e2d51);
    b = Math.imul(b ^ Math.floor(value / 0x1_0000_0000), 0x1b873593);
    a = (((a << 15) | (a >>> 17)) + b) | 0;
    b = ((b << 13) | (b >>> 19)) ^ a;
  }
  const whole = bytes.length & ~7;
  for (let i = 0; i < whole; i += 8) {
    const x =
      byteAt(bytes, i) | (byteAt(bytes, i + 1) << 8) | (byteAt(bytes, i + 2) << 16) | (byteAt(bytes, i + 3) << 24);
    const y =
      byteAt(bytes, i + 4) | (byteAt(bytes, i + 5) << 8) | (byteAt(bytes, i + 6) << 16) | (byteAt(bytes, i + 7) << 24);
    a = Math.imul(a ^ x, 0xcc9e2d51);
    b = Math.imul(b ^ y, 0x1b873593);
    a = (((a << 15) | (a >>> 17)) + b) | 0;
    b = ((b << 13) | (b >>> 19)) ^ a;
  }
  for (let i = whole; i < bytes.length; i++) {
    a = Math.imul(a ^ byteAt(bytes, i), 0xcc9e2d51);
    a = (((a << 15) | (a >>> 17)) + b) | 0;
    b = ((b << 13) | (b >>> 19)) ^ a;
  }
  a = avalanche(a ^ bytes.length);
  b = avalanche(b ^ numbers.length ^ a);
  a = avalanche((a + b) | 0);
  return hex32(a) + hex32(b);
}
