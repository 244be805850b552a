/**
 * Which rows a backup holds, and in which order: everything that does not follow from other rows. Heads (and tombstones
 * of streams with forks) come before the rows of their streams, objects after the chunks that refer to them. Indexes
 * are omitted and rebuilt (derive.ts), as are removed rows that wait to be reclaimed, and the GC queue.
 *
 * A key here is the key of keys.ts without the prefix: tag, then the rest.
 */
import {
  TAG_ATTRIBUTES,
  TAG_BUCKET,
  TAG_CHUNK,
  TAG_CHUNK_RECORD,
  TAG_DATA,
  TAG_EXPIRY,
  TAG_FLUSH,
  TAG_FORK,
  TAG_HEAD,
  TAG_OBJECT,
  TAG_PIN,
  TAG_PRODUCER,
  TAG_RECORD,
  TAG_SNAPSHOT,
  TAG_TOMBSTONE,
  TAG_UNPIN,
} from '../core/keys.ts';

export const BACKUP_TAGS: readonly number[] = [
  TAG_BUCKET,
  TAG_HEAD,
  TAG_TOMBSTONE,
  TAG_CHUNK,
  TAG_DATA,
  TAG_ATTRIBUTES,
  TAG_PRODUCER,
  TAG_SNAPSHOT,
  TAG_FORK,
  TAG_PIN,
  TAG_OBJECT,
  TAG_UNPIN,
];

/** Rows that an import writes. */
export const IMPORTED_TAGS: readonly number[] = [...BACKUP_TAGS, TAG_CHUNK_RECORD, TAG_FLUSH, TAG_RECORD, TAG_EXPIRY];

/** Visits a row; key and value are valid only during the call. */
export type RowSink = (key: Uint8Array, value: Uint8Array) => void;
