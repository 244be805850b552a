/** The frame of a READ: the one query that is frequent enough for a layout of its own. */
import { f64, struct, u16, u32, u8 } from '../base/struct.ts';
import { writeText } from '../base/text.ts';
import type { StreamName } from './flat-path.ts';

/** Number of the operation. */
export const READ_NUMBER = 32;

/** The fields of a READ, which follow the head of the request. */
export const READ = struct(
  {
    ...{ mode: u8, readFlags: u8, keyBytes: u16, topic: u32, value: f64, maxBytes: u32, maxRecords: u32 },
    ...{ held: u8, heldLineage: u32, heldIncarnation: f64, heldEnd: f64 },
  },
  'key',
);
const FIELDS = READ.fields;

/** Where a read starts. */
export const READ_OFFSET = 0;
/** At the current tail: no bytes, the tail as next offset. */
export const READ_NOW = 1;
export const READ_RECORD = 2;
export const READ_RECORD_NOW = 3;
export const READ_TAIL_RECORDS = 4;

/** The part of a stream that is read. */
export interface ReadRange {
  /** One of READ_*. */
  readonly mode: number;
  /** Offset, record ordinal or count, by mode. */
  readonly value: number;
  /** 0: the shard's own bound only. */
  readonly maxBytes: number;
  /** 0: unlimited. */
  readonly maxRecords: number;
  readonly readFlags: number;
}

/** A request's word about the bytes that the main thread holds (HeldRead). */
export const HELD_NOTHING = 0;
export const HELD_TO_BOUND = 1;
export const HELD_TO_TAIL = 2;

/** The question of a READ, at both ends of the mailbox. Reused; at the shard valid until the next read. */
export class ReadFields implements ReadRange {
  mode = READ_OFFSET;
  value = 0;
  maxBytes = 0;
  maxRecords = 0;
  readFlags = 0;
  /**
   * Non-zero: the topic gets the stream's tail events, atomically with the read, when the read succeeds (code
   * OK) and the stream is not closed at the returned position.
   */
  topic = 0;
  /** One of HELD_*. For HELD_NOTHING the rest means nothing. */
  held = HELD_NOTHING;
  heldIncarnation = 0;
  heldLineage = 0;
  heldEnd = 0;

  /** Writes the frame behind the head of the request; returns the size. */
  write(bytes: Uint8Array, view: DataView, at: number, { bucket, stream }: StreamName): number {
    FIELDS.mode.set(view, at, this.mode);
    FIELDS.readFlags.set(view, at, this.readFlags);
    FIELDS.topic.set(view, at, this.topic);
    FIELDS.value.set(view, at, this.value);
    FIELDS.maxBytes.set(view, at, this.maxBytes);
    FIELDS.maxRecords.set(view, at, this.maxRecords);
    FIELDS.held.set(view, at, this.held);
    FIELDS.heldIncarnation.set(view, at, this.heldIncarnation);
    FIELDS.heldLineage.set(view, at, this.heldLineage);
    FIELDS.heldEnd.set(view, at, this.heldEnd);
    const keyAt = at + READ.size;
    const bucketEnd = keyAt + writeText(bytes, keyAt, bucket);
    bytes[bucketEnd] = 0;
    const end = bucketEnd + 1 + writeText(bytes, bucketEnd + 1, stream);
    FIELDS.keyBytes.set(view, at, end - keyAt);
    return end - at;
  }

  /** Returns the size of the key, which follows the fields. */
  read(view: DataView, at: number): number {
    this.mode = FIELDS.mode.get(view, at);
    this.readFlags = FIELDS.readFlags.get(view, at);
    this.topic = FIELDS.topic.get(view, at);
    this.value = FIELDS.value.get(view, at);
    this.maxBytes = FIELDS.maxBytes.get(view, at);
    this.maxRecords = FIELDS.maxRecords.get(view, at);
    this.held = FIELDS.held.get(view, at);
    this.heldIncarnation = FIELDS.heldIncarnation.get(view, at);
    this.heldLineage = FIELDS.heldLineage.get(view, at);
    this.heldEnd = FIELDS.heldEnd.get(view, at);
    return FIELDS.keyBytes.get(view, at);
  }
}
