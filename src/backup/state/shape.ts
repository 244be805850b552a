/**
 * Valid sizes of keys and values by kind. Decoders read only what they expect; additional bytes would be written to the
 * store unchanged and never be found again, or exceed what the store accepts.
 */
import { NAME_BYTES_MAX, PAGE_VALUE_BYTES, PRODUCER_ID_BYTES_MAX } from '../../base/limits.ts';
import { HEAD_FIXED_BYTES } from '../../stream/head.ts';
import {
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
} from '../../stream/keys.ts';
import { producerBytes } from '../../stream/producers.ts';
import { check } from './fault.ts';

const INCARNATION_END = 7;
const POSITION_END = 15;
const TOKEN_END = 9;

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
      return value.length >= HEAD_FIXED_BYTES && value.length === HEAD_FIXED_BYTES + u16(value, 2) + u16(value, 4);
    case TAG_DATA:
      return value.length <= PAGE_VALUE_BYTES;
    case TAG_PRODUCER:
      return value.length >= 2 && value.length === producerBytes(value[1] as number);
    default:
      // The others are decoded to their end, or state their own size.
      return true;
  }
}

function u16(value: Uint8Array, at: number): number {
  return (value[at] as number) | ((value[at + 1] as number) << 8);
}
