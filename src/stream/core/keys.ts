/**
 * Keys of a group's rows. All of a group's state lies under its two-byte prefix, so a group can be scanned, exported or
 * moved as one range (store/key-space.ts). Numbers are big-endian, so key order is number order. The README lists the
 * tags and the rest of each key.
 */
import { byteAt } from '../../base/bytes.ts';
import type { Tx } from '../../base/tx.ts';
import { type NumberField, struct, u16BE, u32BE, u48BE, u64BE, u8 } from '../../base/struct.ts';

export const TAG = {
  attributes: 0x61,
  bucket: 0x62,
  chunk: 0x63,
  chunkRecord: 0x43,
  data: 0x64,
  flush: 0x66,
  garbage: 0x67,
  head: 0x68,
  import: 0x69,
  meta: 0x6d,
  object: 0x6f,
  producer: 0x70,
  gc: 0x71,
  partial: 0x42,
  record: 0x72,
  snapshot: 0x73,
  release: 0x77,
  expiry: 0x78,
  fork: 0x46,
  pin: 0x50,
  tombstone: 0x54,
  unpin: 0x55,
} as const;

export const NUL = 0;

const TWO_32 = 0x1_0000_0000;

/** The place of a field. Numbers are written byte by byte, because a DataView for each key costs more than the key. */
type Place = Pick<NumberField, 'at' | 'bytes'>;

const TAGGED = { prefix: u16BE, tag: u8 };
const TAGGED_KEY = struct(TAGGED, 'what the tag says');
export const INCARNATION_KEY = struct({ ...TAGGED, incarnation: u48BE });
export const POSITION_KEY = struct({ ...TAGGED, incarnation: u48BE, position: u64BE });
export const TIMED_KEY = struct({ ...TAGGED, timeMs: u64BE, incarnation: u48BE });
export const TOKEN_KEY = struct({ ...TAGGED, token: u64BE });
export const PART_KEY = struct({ ...TAGGED, part: u32BE });
const { prefix: PREFIX, tag: TAG_FIELD } = TAGGED_KEY.fields;
const { incarnation: INCARNATION, position: POSITION } = POSITION_KEY.fields;
const { timeMs: TIME_MS, incarnation: TIMED_INCARNATION } = TIMED_KEY.fields;
const { token: TOKEN } = TOKEN_KEY.fields;

/** Size of such a key in backups, which leave the prefix out. */
export function bareBytes({ size }: { readonly size: number }): number {
  return size - PREFIX.end;
}

function prefixed(group: number, tag: number, size: number): Uint8Array {
  const key = new Uint8Array(size);
  key[PREFIX.at] = group >> 8;
  key[PREFIX.at + 1] = group & 0xff;
  key[TAG_FIELD.at] = tag;
  return key;
}

function writeUint(key: Uint8Array, { at, bytes }: Place, value: number): void {
  const high = Math.floor(value / TWO_32);
  const low = value >>> 0;
  let i = at;
  if (bytes === 8) {
    key[i++] = high >>> 24;
    key[i++] = (high >>> 16) & 0xff;
  }
  key[i++] = (high >>> 8) & 0xff;
  key[i++] = high & 0xff;
  key[i++] = low >>> 24;
  key[i++] = (low >>> 16) & 0xff;
  key[i++] = (low >>> 8) & 0xff;
  key[i] = low & 0xff;
}

/** Reads a big-endian number; `dropped`: bytes that a shortened key lacks in front. */
function readUint(key: Uint8Array, { at, bytes }: Place, dropped = 0): number {
  let value = 0;
  for (let i = at - dropped, end = i + bytes; i < end; i++) value = value * 256 + byteAt(key, i);
  return value;
}

/** The key without its prefix, as backups hold it; a view. */
export function bareKey(key: Uint8Array): Uint8Array {
  return key.subarray(PREFIX.end);
}

/** The part of a key behind its tag, as a view. */
export function restOf(key: Uint8Array): Uint8Array {
  return key.subarray(TAG_FIELD.end);
}

/** The incarnation right after the tag of a key. */
export function incarnationOf(key: Uint8Array): number {
  return readUint(key, INCARNATION);
}

/** Sequence of a GC queue key. */
export function sequenceOf(key: Uint8Array): number {
  return readUint(key, INCARNATION);
}

/** Time of a key in a time index, which begins with it: a deadline, or since when bytes have been waiting. */
export function timeOf(key: Uint8Array): number {
  return readUint(key, TIME_MS);
}

/** Incarnation of a key in a time index. */
export function timedIncarnationOf(key: Uint8Array): number {
  return readUint(key, TIMED_INCARNATION);
}

/** The position or token at the end of a key. */
export function lastPosition(key: Uint8Array): number {
  return readUint(key, POSITION, POSITION_KEY.size - key.length);
}

/** As incarnationOf, for backup keys, which have no group prefix: the tag comes first. */
export function bareIncarnationOf(key: Uint8Array): number {
  return readUint(key, INCARNATION, PREFIX.end);
}

/** The position after the incarnation of a backup key. */
export function barePositionOf(key: Uint8Array): number {
  return readUint(key, POSITION, PREFIX.end);
}

/** An incarnation on its own, as in a garbage key. */
export function readIncarnation(bytes: Uint8Array): number {
  return readUint(bytes, INCARNATION, TAG_FIELD.end);
}

const NO_REST = new Uint8Array(0);

/** Key of a tag followed by arbitrary bytes. */
export function taggedKey(group: number, tag: number, rest: Uint8Array = NO_REST): Uint8Array {
  const key = prefixed(group, tag, TAG_FIELD.end + rest.length);
  key.set(rest, TAG_FIELD.end);
  return key;
}

/** Key of a tag with an incarnation. */
export function incarnationKey(group: number, tag: number, incarnation: number): Uint8Array {
  const key = prefixed(group, tag, INCARNATION_KEY.size);
  writeUint(key, INCARNATION, incarnation);
  return key;
}

/** Key of a tag with an incarnation and a position (offset or ordinal). */
export function positionKey(group: number, tag: number, incarnation: number, position: number): Uint8Array {
  const key = prefixed(group, tag, POSITION_KEY.size);
  writeUint(key, INCARNATION, incarnation);
  writeUint(key, POSITION, position);
  return key;
}

export function producerKey(group: number, incarnation: number, id: Uint8Array): Uint8Array {
  const key = prefixed(group, TAG.producer, INCARNATION.end + id.length);
  writeUint(key, INCARNATION, incarnation);
  key.set(id, INCARNATION.end);
  return key;
}

function timedKey(group: number, tag: number, timeMs: number, incarnation: number): Uint8Array {
  const key = prefixed(group, tag, TIMED_KEY.size);
  writeUint(key, TIME_MS, timeMs);
  writeUint(key, TIMED_INCARNATION, incarnation);
  return key;
}

export function expiryKey(group: number, deadlineMs: number, incarnation: number): Uint8Array {
  return timedKey(group, TAG.expiry, deadlineMs, incarnation);
}

/** Oldest first, like the expiry index. */
export function flushKey(group: number, hotSinceMs: number, incarnation: number): Uint8Array {
  return timedKey(group, TAG.flush, hotSinceMs, incarnation);
}

/** Key of a source that must be notified. */
export function unpinKey(group: number, token: number): Uint8Array {
  const key = prefixed(group, TAG.unpin, TOKEN_KEY.size);
  writeUint(key, TOKEN, token);
  return key;
}

/** Key of a page of the partial command. */
export function partKey(prefix: number, part: number): Uint8Array {
  return PART_KEY.encode({ prefix, tag: TAG.partial, part });
}

/** Tells whether any key begins with `start`, or lies between `start` and `end`. */
export function anyRow(rows: Pick<Tx, 'keys'>, start: Uint8Array, end = prefixEnd(start)): boolean {
  let found = false;
  rows.keys(start, end, () => {
    found = true;
    return false;
  });
  return found;
}

/** Time in milliseconds of the first row of an index by time; undefined when it has none. */
export function firstTime(rows: Pick<Tx, 'keys'>, index: Uint8Array): number | undefined {
  let ms: number | undefined;
  rows.keys(index, prefixEnd(index), (key) => {
    ms = timeOf(key);
    return false;
  });
  return ms;
}

/** First key after all keys that start with `prefix`. */
export function prefixEnd(prefix: Uint8Array): Uint8Array {
  const end = prefix.slice();
  for (let i = end.length - 1; i >= 0; i--) {
    if (byteAt(end, i) < 0xff) {
      end[i] = byteAt(end, i) + 1;
      return end.subarray(0, i + 1);
    }
  }
  return new Uint8Array([0xff, 0xff, 0xff, 0xff]);
}

/** FNV-1a, 32 bits, over a part of `bytes`: the hash of the head cache. Not stored anywhere. */
export function hashBytes(bytes: Uint8Array, start: number, length: number): number {
  let hash = 0x811c9dc5 | 0;
  for (let i = start; i < start + length; i++) hash = Math.imul(hash ^ byteAt(bytes, i), 0x01000193);
  return hash;
}

/** True when `key` equals the given part of `bytes`. */
export function equalsPart(key: Uint8Array, bytes: Uint8Array, start: number, length: number): boolean {
  if (key.length !== length) return false;
  for (let i = 0; i < length; i++) if (key[i] !== bytes[start + i]) return false;
  return true;
}
