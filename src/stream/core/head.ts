/**
 * The head of a stream: everything except its bytes, producers and attributes. One row in the store, and one object in
 * the cache while in use.
 */
import { viewOf } from '../../base/bytes.ts';
import { assert } from '../../base/assert.ts';
import { isJson, sameContentType } from '../../protocol/media-type.ts';
import { readText, textBytes, writeText } from '../../base/text.ts';
import { planted } from '../../base/planted.ts';
import { f64, f64OrNone, struct, u16, u8, zeros } from '../../base/struct.ts';
import type { ProducerState } from './producers.ts';
import type { DataRow } from './row.ts';

const FORMAT = 2;
const DEFAULT_TYPE = 'application/octet-stream';
export const HEAD_ROW = struct(
  {
    ...{ format: u8, flags: u8, contentTypeBytes: u16, seqBytes: u16, zeros: zeros(2), incarnation: f64, tail: f64 },
    ...{ tailRowStart: f64, recordNext: f64, startOffset: f64, recordFirst: f64, createdAtMs: f64, touchedAtMs: f64 },
    ...{ writtenAtMs: f64, ttlSeconds: f64OrNone, expiresAtMs: f64OrNone, indexedDeadlineMs: f64OrNone },
    ...{ hotStart: f64, hotRecord: f64, hotSinceMs: f64OrNone, snapshotOffset: f64OrNone },
  },
  'content type, seq',
);
const FIELDS = HEAD_ROW.fields;
const CLOSED = 1;
const HAS_SEQ = 2;
const HAS_ATTRIBUTES = 4;
const HAS_PRODUCERS = 8;
const TYPE_FROM_APPEND = 16;
const FORKED = 32;
const PROVISIONAL = 64;
const HAS_PINS = 128;
/** A fork whose creator is silent so long is given up: its node died. Longer than an election plus a slow cold read. */
export const PROVISIONAL_SILENCE_MS = 15_000;
/** Most streams have one producer. A stream with more keeps in memory only those that the store does not have yet. */
export const PRODUCERS_CACHED_MAX = 8;

export class Head {
  /** bucket NUL stream. */
  readonly key: Uint8Array;
  readonly hash: number;
  /** Length of the bucket name at the start of the key. */
  readonly bucketBytes: number;
  incarnation = 0;
  closed = false;
  /** As the client sent it, normalised; empty until the create or the first append with a body sets one. */
  contentType = '';
  /** The create sent no type, so a repeated create without one still matches. */
  typeFromAppend = false;
  json = false;
  /** Offset after the last byte. */
  tail = 0;
  /** Start of the last data row; equals `tail` when there is none. */
  tailRowStart = 0;
  /** Next ordinal: records of a JSON stream, messages of a byte stream. */
  recordNext = 0;
  /** Start offset (the retention floor): offset and ordinal. */
  startOffset = 0;
  recordFirst = 0;
  /**
   * Offset and ordinal from which the bytes are in rows; from the start offset up to here they are in chunks in the
   * cold store. Always a message or record boundary, and the start of a row unless it equals the tail.
   */
  hotStart = 0;
  hotRecord = 0;
  /** Time under which the flush index lists the stream; -1: it has no bytes in rows. */
  hotSinceMs = -1;
  /** Position that the published snapshot covers; -1: none published. */
  snapshotOffset = -1;
  /** undefined: no sequence accepted yet. */
  lastSeq: string | undefined = undefined;
  hasAttributes = false;
  hasProducers = false;
  /** The stream is a fork; a fork row names its source. */
  forked = false;
  /** An incomplete fork, invisible to clients. */
  provisional = false;
  /** The stream has live forks. */
  hasPins = false;
  createdAtMs = 0;
  /** Start of the current TTL period. */
  touchedAtMs = 0;
  writtenAtMs = 0;
  ttlSeconds = -1;
  expiresAtMs = -1;
  /** Deadline under which the expiry index lists the stream; never later than the real deadline. -1: not listed. */
  indexedDeadlineMs = -1;

  // The fields below are not stored.
  dirty = false;
  /** The store has a head row for this incarnation. */
  stored = false;
  /** The store may have rows of this incarnation. */
  everFlushed = false;
  /** Rows in memory, ascending, with gaps: all dirty ones and usually the last row of the stream. */
  rows: DataRow[] = [];
  producers: Map<string, ProducerState> | undefined = undefined;
  /** Next head with the same hash in the cache. */
  next: Head | undefined = undefined;
  /** Reference bit of the cache's second-chance eviction. */
  used = true;
  /** Leader only: when a lifetime renewal was last proposed, so that a burst of reads proposes one. */
  renewalProposedMs = 0;
  /** Removed from the state; only existing references still see it. */
  dead = false;

  constructor(key: Uint8Array, hash: number) {
    this.key = key;
    this.hash = hash;
    this.bucketBytes = key.indexOf(0);
  }

  setContentType(type: string): void {
    this.contentType = type;
    this.json = isJson(type);
  }

  /** Readers see octet-stream before a type is set. */
  get shownContentType(): string {
    return this.contentType === '' ? DEFAULT_TYPE : this.contentType;
  }

  /** Whether a create describes it: without a type, any stream that got its type from an append, or octet-stream. */
  matchesType(type: string): boolean {
    if (type === '') return this.typeFromAppend || this.shownContentType === DEFAULT_TYPE;
    return sameContentType(type, this.shownContentType);
  }

  /** Time in milliseconds at which the stream expires; Infinity when never. */
  get deadlineMs(): number {
    if (this.provisional) return this.touchedAtMs + (planted('fork-never-given-up') ? 1e12 : PROVISIONAL_SILENCE_MS);
    if (this.expiresAtMs >= 0) return this.expiresAtMs;
    return this.ttlSeconds >= 0 ? this.touchedAtMs + this.ttlSeconds * 1000 : Infinity;
  }

  expired(nowMs: number): boolean {
    return nowMs >= this.deadlineMs;
  }

  /** Everything about the stream is in the store now. */
  flushed(): void {
    this.stored = true;
    this.everFlushed = true;
    for (const row of this.rows) {
      row.dirty = false;
      row.fresh = false;
    }
    const last = this.rows[this.rows.length - 1];
    // A row that can still grow stays in memory. A full row is read from the store when needed.
    this.rows = last !== undefined && last.start === this.tailRowStart && last.space > 0 ? [last] : [];
    if (this.producers === undefined) return;
    for (const producer of this.producers.values()) producer.dirty = false;
    if (this.producers.size > PRODUCERS_CACHED_MAX) this.producers = undefined;
  }
}

export function headBytesMax(head: Head): number {
  return HEAD_ROW.size + textBytes(head.contentType) + textBytes(head.lastSeq ?? '');
}

export function encodeHead(head: Head, target: Uint8Array, view: DataView): number {
  let flags = 0;
  if (head.closed) flags |= CLOSED;
  if (head.lastSeq !== undefined) flags |= HAS_SEQ;
  if (head.hasAttributes) flags |= HAS_ATTRIBUTES;
  if (head.hasProducers) flags |= HAS_PRODUCERS;
  if (head.typeFromAppend) flags |= TYPE_FROM_APPEND;
  if (head.forked) flags |= FORKED;
  if (head.provisional) flags |= PROVISIONAL;
  if (head.hasPins) flags |= HAS_PINS;
  FIELDS.format.set(view, 0, FORMAT);
  FIELDS.flags.set(view, 0, flags);
  FIELDS.zeros.clear(view, 0);
  FIELDS.incarnation.set(view, 0, head.incarnation);
  FIELDS.tail.set(view, 0, head.tail);
  FIELDS.tailRowStart.set(view, 0, head.tailRowStart);
  FIELDS.recordNext.set(view, 0, head.recordNext);
  FIELDS.startOffset.set(view, 0, head.startOffset);
  FIELDS.recordFirst.set(view, 0, head.recordFirst);
  FIELDS.createdAtMs.set(view, 0, head.createdAtMs);
  FIELDS.touchedAtMs.set(view, 0, head.touchedAtMs);
  FIELDS.writtenAtMs.set(view, 0, head.writtenAtMs);
  FIELDS.ttlSeconds.set(view, 0, head.ttlSeconds);
  FIELDS.expiresAtMs.set(view, 0, head.expiresAtMs);
  FIELDS.indexedDeadlineMs.set(view, 0, head.indexedDeadlineMs);
  FIELDS.hotStart.set(view, 0, head.hotStart);
  FIELDS.hotRecord.set(view, 0, head.hotRecord);
  FIELDS.hotSinceMs.set(view, 0, head.hotSinceMs);
  FIELDS.snapshotOffset.set(view, 0, head.snapshotOffset);
  let at = HEAD_ROW.size;
  const typeBytes = writeText(target, at, head.contentType);
  at += typeBytes;
  const seqBytes = head.lastSeq === undefined ? 0 : writeText(target, at, head.lastSeq);
  FIELDS.contentTypeBytes.set(view, 0, typeBytes);
  FIELDS.seqBytes.set(view, 0, seqBytes);
  return at + seqBytes;
}

export function decodeHead(key: Uint8Array, hash: number, value: Uint8Array): Head {
  assert(value[0] === FORMAT, 'known stream head format');
  const view = viewOf(value);
  const flags = FIELDS.flags.get(view, 0);
  const typeBytes = FIELDS.contentTypeBytes.get(view, 0);
  const head = new Head(key, hash);
  head.closed = (flags & CLOSED) !== 0;
  head.hasAttributes = (flags & HAS_ATTRIBUTES) !== 0;
  head.hasProducers = (flags & HAS_PRODUCERS) !== 0;
  head.typeFromAppend = (flags & TYPE_FROM_APPEND) !== 0;
  head.forked = (flags & FORKED) !== 0;
  head.provisional = (flags & PROVISIONAL) !== 0;
  head.hasPins = (flags & HAS_PINS) !== 0;
  head.incarnation = FIELDS.incarnation.get(view, 0);
  head.tail = FIELDS.tail.get(view, 0);
  head.tailRowStart = FIELDS.tailRowStart.get(view, 0);
  head.recordNext = FIELDS.recordNext.get(view, 0);
  head.startOffset = FIELDS.startOffset.get(view, 0);
  head.recordFirst = FIELDS.recordFirst.get(view, 0);
  head.createdAtMs = FIELDS.createdAtMs.get(view, 0);
  head.touchedAtMs = FIELDS.touchedAtMs.get(view, 0);
  head.writtenAtMs = FIELDS.writtenAtMs.get(view, 0);
  head.ttlSeconds = FIELDS.ttlSeconds.get(view, 0);
  head.expiresAtMs = FIELDS.expiresAtMs.get(view, 0);
  head.indexedDeadlineMs = FIELDS.indexedDeadlineMs.get(view, 0);
  head.hotStart = FIELDS.hotStart.get(view, 0);
  head.hotRecord = FIELDS.hotRecord.get(view, 0);
  head.hotSinceMs = FIELDS.hotSinceMs.get(view, 0);
  head.snapshotOffset = FIELDS.snapshotOffset.get(view, 0);
  head.setContentType(readText(value, HEAD_ROW.size, typeBytes));
  if ((flags & HAS_SEQ) !== 0) head.lastSeq = readText(value, HEAD_ROW.size + typeBytes, FIELDS.seqBytes.get(view, 0));
  head.stored = true;
  head.everFlushed = true;
  return head;
}

/** Receives, during apply, the changes that live readers wait for. */
export interface StateListener {
  /** Bytes were appended from `from` on, the stream was closed, or both; or the stream was created. */
  changed(head: Head, from: number): void;
  removed(head: Head): void;
}
