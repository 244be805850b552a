/**
 * Valid sizes of keys and values by kind. Decoders read only what they expect; additional bytes would be written to the
 * store unchanged and never be found again, or exceed what the store accepts.
 */
import { NAME_BYTES_MAX, PAGE_VALUE_BYTES, PRODUCER_ID_BYTES_MAX } from '../../base/limits.ts';
import { HEAD_ROW } from '../core/head.ts';
import {
  INCARNATION_KEY,
  POSITION_KEY,
  TOKEN_KEY,
  bareBytes,
  TAG_ATTRIBUTES,
  TAG_BUCKET,
  TAG_CHUNK,
  TAG_DATA,
  TAG_FORK,
  TAG_HEAD,
  TAG_OBJECT,
  TAG_PIN,
  TAG_PRODUCER,
  TAG_SNAPSHOT,
  TAG_TOMBSTONE,
  TAG_UNPIN,
} from '../core/keys.ts';
import { PRODUCER_ROW, producerBytes } from '../core/producers.ts';
import { check } from './fault.ts';

/** Ends of the parts of keys that have no prefix. */
const INCARNATION_END = bareBytes(INCARNATION_KEY);
const POSITION_END = bareBytes(POSITION_KEY);
const TOKEN_END = bareBytes(TOKEN_KEY);

/** Shortest and longest key, including the tag. */
const KEY_BYTES: ReadonlyMap<number, readonly [number, number]> = new Map([
  [TAG_ATTRIBUTES, [INCARNATION_END, INCARNATION_END]],
  [TAG_BUCKET, [2, 1 + NAME_BYTES_MAX]],
  [TAG_CHUNK, [POSITION_END, POSITION_END]],
  [TAG_DATA, [POSITION_END, POSITION_END]],
  // A name, and NUL between bucket and stream.
  [TAG_HEAD, [4, 2 + NAME_BYTES_MAX]],
  [TAG_OBJECT, [POSITION_END, POSITION_END]],
  [TAG_PRODUCER, [INCARNATION_END + 1, INCARNATION_END + PRODUCER_ID_BYTES_MAX]],
  [TAG_SNAPSHOT, [POSITION_END, POSITION_END]],
  [TAG_FORK, [INCARNATION_END, INCARNATION_END]],
  [TAG_PIN, [POSITION_END, POSITION_END]],
  [TAG_TOMBSTONE, [4, 2 + NAME_BYTES_MAX]],
  [TAG_UNPIN, [TOKEN_END, TOKEN_END]],
]);

/** Throws a Fault. */
export function checkShape(tag: number, key: Uint8Array, value: Uint8Array, thing: string): void {
  const [least, most] = KEY_BYTES.get(tag) as readonly [number, number];
  check(key.length >= least && key.length <= most, `a ${thing} has a key of ${key.length} bytes, which cannot be`);
  check(hasItsSize(tag, value), `a ${thing} has ${value.length} bytes, which cannot be`);
}

function hasItsSize(tag: number, value: Uint8Array): boolean {
  switch (tag) {
    case TAG_HEAD:
      return value.length >= HEAD_ROW.size && value.length === headRowBytes(value);
    case TAG_DATA:
      return value.length <= PAGE_VALUE_BYTES;
    case TAG_PRODUCER:
      return value.length >= PRODUCER_ROW.size && value.length === producerBytes(PRODUCER_ROW.decode(value).receipts);
    default:
      // The others are decoded to their end, or state their own size.
      return true;
  }
}

function headRowBytes(value: Uint8Array): number {
  const { contentTypeBytes, seqBytes } = HEAD_ROW.decode(value);
  return HEAD_ROW.size + contentTypeBytes + seqBytes;
}
