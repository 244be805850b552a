/**
 * Which rows a backup holds, in which order, and how each is written. It holds everything that does not follow from
 * other rows. Heads (and tombstones of streams with forks) come before the rows of their streams, objects after the
 * chunks that refer to them. Indexes are omitted and made again (validate.ts), as are removed rows that wait to be
 * reclaimed, and the GC queue. A key here is the key of keys.ts without the prefix: tag, then the rest.
 */
import { byteAt, compareBytes, viewOf } from '../../base/bytes.ts';
import { NAME_BYTES_MAX, PAGE_VALUE_BYTES, PRODUCER_ID_BYTES_MAX } from '../../base/limits.ts';
import type { NumberField, Struct } from '../../base/struct.ts';
import { decodeChunkRow, decodeObjectId, encodeChunkRow } from '../../protocol/cold.ts';
import { TIMESTAMP_MS_MAX, TTL_SECONDS_MAX } from '../../protocol/header-values.ts';
import { OBJECT_ROW, decodeObjectRow, encodeObjectRow } from '../cold/objects.ts';
import { BUCKET_ROW, decodeBucket, encodeBucket } from '../core/buckets.ts';
import {
  FORK_ROW,
  TOMBSTONE_ROW,
  decodeOrigin,
  decodePin,
  decodeTombstone,
  encodeOrigin,
  encodePin,
  encodeTombstone,
} from '../core/fork-rows.ts';
import { HEAD_ROW, type Head, decodeHead, encodeHead, headBytesMax } from '../core/head.ts';
import { INCARNATION_KEY, POSITION_KEY, TAG, TOKEN_KEY, bareBytes } from '../core/keys.ts';
import { PRODUCER_ROW, RECEIPT, decodeProducer, encodeProducer } from '../core/producers.ts';
import { parseAttributes } from '../../json/attributes.ts';
import { JsonNormalizer } from '../../json/json-records.ts';
import { check } from './fault.ts';

type Marks = Pick<Head, 'hasAttributes' | 'hasProducers' | 'snapshotOffset' | 'forked' | 'hasPins'>;
type Numbers = Pick<Struct, 'fields' | 'size'>;

export interface RowKind {
  readonly tag: number;
  /** Its name in sentences. */
  readonly thing: string;
  /** Shortest and longest key, including the tag. */
  readonly keyBytes: readonly [number, number];
  /** The record at the beginning of the value, and those that follow it to the end. */
  readonly record?: Numbers;
  readonly items?: Numbers;
  /** Rows of this kind come only for streams whose heads say so; `missing` is the fault when none came. */
  readonly says?: (head: Marks) => boolean;
  readonly missing?: string;
  /** Writes again what it has read. Undefined: the value cannot be read. */
  readonly again?: (key: Uint8Array, value: Uint8Array) => Uint8Array | undefined;
}

const exactly = (key: { readonly size: number }): [number, number] => [bareBytes(key), bareBytes(key)];
/** The tag, a bucket, NUL and a stream. */
const STREAM_KEY_BYTES = [4, 2 + NAME_BYTES_MAX] as const;
const PRODUCER_AT = bareBytes(INCARNATION_KEY);

/** The kinds of rows in the order of a backup. */
export const KINDS: readonly RowKind[] = [
  {
    ...{ tag: TAG.bucket, thing: 'bucket', keyBytes: [2, 1 + NAME_BYTES_MAX], record: BUCKET_ROW },
    again: (key, value) => encodeBucket(decodeBucket(key, value)),
  },
  { tag: TAG.head, thing: 'stream', keyBytes: STREAM_KEY_BYTES, record: HEAD_ROW, again: headAgain },
  {
    ...{ tag: TAG.tombstone, thing: 'removed stream', keyBytes: STREAM_KEY_BYTES, record: TOMBSTONE_ROW },
    again: (_key, value) => encodeTombstone(decodeTombstone(value)),
  },
  { tag: TAG.chunk, thing: 'chunk', keyBytes: exactly(POSITION_KEY), again: chunkAgain },
  { tag: TAG.data, thing: 'row of bytes', keyBytes: exactly(POSITION_KEY) },
  {
    ...{ tag: TAG.attributes, thing: 'set of attributes', keyBytes: exactly(INCARNATION_KEY), again: attributesAgain },
    ...{ says: (head) => head.hasAttributes, missing: 'its attributes are missing' },
  },
  {
    ...{ tag: TAG.producer, thing: 'producer', record: PRODUCER_ROW, items: RECEIPT },
    keyBytes: [PRODUCER_AT + 1, PRODUCER_AT + PRODUCER_ID_BYTES_MAX],
    again: (_key, value) => encodeProducer(decodeProducer(value)),
    says: (head) => head.hasProducers,
  },
  {
    ...{ tag: TAG.snapshot, thing: 'published snapshot', keyBytes: exactly(POSITION_KEY) },
    ...{ says: (head) => head.snapshotOffset >= 0, missing: 'its published snapshot is missing' },
  },
  {
    ...{ tag: TAG.fork, thing: 'fork', keyBytes: exactly(INCARNATION_KEY), record: FORK_ROW },
    again: (_key, value) => encodeOrigin(decodeOrigin(value)),
    ...{ says: (head) => head.forked, missing: 'it is a fork, and nothing says of what' },
  },
  {
    ...{ tag: TAG.pin, thing: 'fork kept', keyBytes: exactly(POSITION_KEY) },
    again: (_key, value) => encodePin(decodePin(value)),
    ...{ says: (head) => head.hasPins, missing: 'it has forks that are missing' },
  },
  {
    ...{ tag: TAG.object, thing: 'object', keyBytes: exactly(POSITION_KEY), record: OBJECT_ROW },
    again: (key, value) => encodeObjectRow(decodeObjectRow(decodeObjectId(key, 1), value)),
  },
  { tag: TAG.unpin, thing: 'fork gone', keyBytes: exactly(TOKEN_KEY) },
];

export const BACKUP_TAGS: readonly number[] = KINDS.map(({ tag }) => tag);

/** Rows that an import writes. */
export const IMPORTED_TAGS: readonly number[] = [...BACKUP_TAGS, TAG.chunkRecord, TAG.flush, TAG.record, TAG.expiry];

/** Visits a row; key and value are valid only during the call. */
export type RowSink = (key: Uint8Array, value: Uint8Array) => void;

/** Positions and counters go on from the backup's values, and stay exact in a double for longer than clusters run. */
export const COUNT_MAX = 2 ** 52;

/** Fields that nothing counts on from take all that a request may bring. */
const HIGHEST: ReadonlyMap<string, number> = new Map([
  ['epoch', Number.MAX_SAFE_INTEGER],
  ['streamsMax', Number.MAX_SAFE_INTEGER],
  ['retainedBytesMax', Number.MAX_SAFE_INTEGER],
  ['subOffset', Number.MAX_SAFE_INTEGER],
  // A deadline: the longest TTL behind the last moment. Above 2^53, where keys still hold every double.
  ['indexedDeadlineMs', TTL_SECONDS_MAX * 1000 + TIMESTAMP_MS_MAX],
]);

export function kindOf(key: Uint8Array): RowKind {
  const tag = byteAt(key, 0);
  const kind = KINDS[BACKUP_TAGS.indexOf(tag)];
  const letter = String.fromCharCode(tag ?? 0x3f);
  check(kind !== undefined, `there are rows of kind '${letter}', which a backup does not have`);
  return kind;
}

/**
 * Checks that a row is one of ours: numbers that can be, and every byte as our encoder writes it, because decoders read
 * only what they expect. Throws a Fault, or what the decoder throws.
 */
export function checkWritten(
  { thing, keyBytes, record, items, again }: RowKind,
  key: Uint8Array,
  value: Uint8Array,
): void {
  const [least, most] = keyBytes;
  check(key.length >= least && key.length <= most, `a ${thing} has a key of ${key.length} bytes, which cannot be`);
  check(
    value.length <= PAGE_VALUE_BYTES || again !== undefined,
    `a ${thing} has ${value.length} bytes, which cannot be`,
  );
  const view = viewOf(value);
  for (let part = record, at = 0; part !== undefined && at + part.size <= value.length; at += part.size, part = items) {
    for (const [name, field] of Object.entries(part.fields)) {
      if (!isNumber(field)) continue;
      const number = field.get(view, at);
      const highest = HIGHEST.get(name) ?? COUNT_MAX;
      const isPossible = Number.isInteger(number) && number >= field.lowest && number <= highest;
      check(isPossible, `a ${thing} has an impossible ${name}: ${number}`);
    }
  }
  const written = again?.(key, value);
  check(
    again === undefined || (written !== undefined && compareBytes(written, value) === 0),
    `a ${thing} is not written as this program writes it`,
  );
}

function isNumber(field: object): field is NumberField {
  return 'lowest' in field;
}

function headAgain(key: Uint8Array, value: Uint8Array): Uint8Array {
  const head = decodeHead(key, 0, value);
  const row = new Uint8Array(headBytesMax(head));
  encodeHead(head, row, viewOf(row));
  return row;
}

function chunkAgain(_key: Uint8Array, value: Uint8Array): Uint8Array {
  const { object, ...chunk } = decodeChunkRow(value);
  return encodeChunkRow(object, chunk);
}

function attributesAgain(_key: Uint8Array, value: Uint8Array): Uint8Array | undefined {
  const parsed = parseAttributes(value, new JsonNormalizer());
  return parsed.ok ? parsed.encoded : undefined;
}
