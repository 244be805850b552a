/**
 * Objects of the cold store as a group knows them: how many chunks refer to each, and the queue of those that are to be
 * deleted. An object has its row from its first mention until it is known to be
 * deleted; nothing refers to it again once it is queued.
 *
 * The queue has classes, because entries of each become due in order only among
 * themselves. The gcClass is part of a GC seq.
 */
import { assert } from '../../base/assert.ts';
import { RowDamage, needRow, neededRow } from '../../base/row-damage.ts';
import { viewOf } from '../../base/bytes.ts';
import { textBytes } from '../../base/text.ts';
import { decodeUtf8, encodeUtf8 } from '../../base/utf8.ts';
import { planted } from '../../base/planted.ts';
import { bytes, f64, f64OrNone, struct, u16, u32, u8 } from '../../base/struct.ts';
import {
  type ChunkRef,
  OBJECT_ID_BYTES,
  type ObjectId,
  type StoredChunk,
  decodeObjectId,
  encodeObjectId,
} from '../../protocol/cold.ts';
import { TAG, equalsPart, incarnationKey, sequenceOf, taggedKey } from '../core/keys.ts';
import type { State } from '../core/state.ts';

/** Its content was deleted, or it was never referenced. */
export const GC_USUAL = 0;
/** Queued by a purge: due immediately. */
export const GC_IMMEDIATE = 1;
/** Its content is now in another object; earlier backups refer to this one. */
export const GC_MERGED = 2;
export type GcClass = typeof GC_USUAL | typeof GC_IMMEDIATE | typeof GC_MERGED;

const GC_CLASSES: readonly GcClass[] = [GC_IMMEDIATE, GC_USUAL, GC_MERGED];
/** A GC seq is the lane times this plus a number that counts through all lanes. */
const CLASS_SEQS = 2 ** 44;

const OTHER_OBJECT = 'the object that it queues does not name it';

const MERGED = 1;
/** `gcSeq` -1: not in the GC queue. */
export const OBJECT_ROW = struct(
  { refs: u32, flags: u32, bytes: f64, gcSeq: f64OrNone, bucketBytes: u16 },
  'bucket, object key',
);
export const GC_ROW = struct({ queuedMs: f64, gcClass: u8, object: bytes(OBJECT_ID_BYTES) }, 'bucket');

export interface ObjectRow {
  readonly object: ObjectId;
  refs: number;
  readonly bytes: number;
  /** Its entry in the GC queue; -1: none. */
  gcSeq: number;
  /** Some of its chunks were merged into others. */
  merged: boolean;
  /** Empty when unknown: found by the sweep for orphans. */
  readonly bucket: string;
  readonly key: string;
}

export function sameObject(a: ObjectId, b: ObjectId): boolean {
  return a.seq === b.seq && a.run === b.run;
}

function rowKey(state: State, object: ObjectId): Uint8Array {
  return taggedKey(state.prefix, TAG.object, encodeObjectId(object));
}

export function storedObject(state: State, object: ObjectId): ObjectRow | undefined {
  const row = state.overlay.get(rowKey(state, object));
  return row === undefined ? undefined : decodeObjectRow(object, row);
}

/** The row of an object that other rows name. */
function neededObject(state: State, object: ObjectId): ObjectRow {
  return decodeObjectRow(object, neededRow(state.overlay, rowKey(state, object)));
}

export function decodeObjectRow(object: ObjectId, row: Uint8Array): ObjectRow {
  const { refs, flags, bytes: size, gcSeq, bucketBytes } = OBJECT_ROW.decode(row);
  const keyAt = OBJECT_ROW.size + bucketBytes;
  return {
    object,
    refs,
    bytes: size,
    gcSeq,
    merged: (flags & MERGED) !== 0,
    bucket: decodeUtf8(row, OBJECT_ROW.size, keyAt),
    key: decodeUtf8(row, keyAt, row.length),
  };
}

function putObject(state: State, stored: ObjectRow): void {
  state.overlay.put(rowKey(state, stored.object), encodeObjectRow(stored));
}

export function encodeObjectRow(stored: ObjectRow): Uint8Array {
  const flags = stored.merged ? MERGED : 0;
  const bucketBytes = textBytes(stored.bucket);
  return OBJECT_ROW.encode({ ...stored, flags, bucketBytes }, encodeUtf8(stored.bucket + stored.key));
}

/** Adds an unknown object; without references it goes into the GC queue immediately. */
export function addObject(state: State, stored: Omit<ObjectRow, 'gcSeq' | 'merged'>, nowMs: number): void {
  state.cold.objects++;
  state.cold.objectBytes += stored.bytes;
  const added = { ...stored, gcSeq: -1, merged: false };
  if (added.refs === 0) queueObject(state, added, nowMs, GC_USUAL);
  else putObject(state, added);
}

/** Removes `count` chunk references; `lane` gives the reason. */
export function releaseObject(state: State, object: ObjectId, count: number, nowMs: number, gcClass: GcClass): void {
  const stored = neededObject(state, object);
  if (stored.refs < count) throw new RowDamage(rowKey(state, object), 'chunks refer to it more often than it says');
  stored.refs -= planted('release-counts-double') ? Math.min(stored.refs, 2 * count) : count;
  if (gcClass === GC_MERGED) stored.merged = true;
  // Whatever removed the last reference: a backup may need what was merged before.
  if (stored.refs === 0) queueObject(state, stored, nowMs, gcClass === GC_USUAL && stored.merged ? GC_MERGED : gcClass);
  else putObject(state, stored);
}

function queueObject(state: State, stored: ObjectRow, nowMs: number, gcClass: GcClass): void {
  assert(stored.refs === 0 && stored.gcSeq < 0, 'an object is queued once, when nothing refers to it');
  stored.gcSeq = gcClass * CLASS_SEQS + state.cold.nextGcSeq++;
  state.cold.gcLength++;
  const { tally } = state.cold;
  if (tally?.bucket === stored.bucket) tally.queued++;
  const object = encodeObjectId(stored.object);
  const row = GC_ROW.encode({ queuedMs: nowMs, gcClass, object }, encodeUtf8(stored.bucket));
  state.overlay.put(incarnationKey(state.prefix, TAG.gc, stored.gcSeq), row);
  putObject(state, stored);
}

/** The object of a queue entry was deleted, so the group forgets it. */
export function forgetObject(state: State, seq: number): void {
  const key = incarnationKey(state.prefix, TAG.gc, seq);
  const row = state.overlay.get(key);
  if (row === undefined) return;
  const stored = storedObject(state, objectOf(row));
  needRow(stored?.gcSeq === seq, key, OTHER_OBJECT);
  state.overlay.delete(key);
  state.overlay.delete(rowKey(state, stored.object));
  state.cold.gcLength--;
  state.cold.objects--;
  state.cold.objectBytes -= stored.bytes;
}

/** Referenced, or in the GC queue. Used by the sweep for orphans. */
export function objectKnown(state: State, object: ObjectId): boolean {
  return storedObject(state, object) !== undefined;
}

/** Chunks of one stream, with the keys of their objects. */
export function withKeys(state: State, chunks: readonly StoredChunk[]): ChunkRef[] {
  const refs: ChunkRef[] = [];
  let last: ObjectRow | undefined;
  for (const { object, ...chunk } of chunks) {
    if (last === undefined || !sameObject(last.object, object)) last = neededObject(state, object);
    refs.push({ ...chunk, key: last.key });
  }
  return refs;
}

export interface GcEntry {
  readonly seq: number;
  readonly object: ObjectId;
  readonly key: string;
  readonly bucket: string;
  readonly bytes: number;
  readonly queuedMs: number;
  readonly gcClass: GcClass;
}

/** `next`: where a walk over the queue goes on; undefined: nowhere, for all entries were looked at. */
export interface GcWalk {
  readonly entries: GcEntry[];
  readonly next: number | undefined;
}

/** Entries queued before these times are due; immediate ones always are. */
export interface GcDeadlines {
  readonly nowMs: number;
  readonly usualMs: number;
  readonly mergedMs: number;
}

/** Bounds of one walk over the queue: entries that it returns, and entries that it looks at. */
interface GcBounds {
  readonly most: number;
  readonly looks: number;
  /** Entries that were queued behind this do not count as looks. */
  readonly nowMs?: number;
  /** Takes what is wrong with entries that are left out. Undefined: that is thrown. */
  readonly damages?: RowDamage[] | undefined;
}

/** Some milliseconds. A clock that is an hour ahead queues about as many when a group merges every second. */
const AHEAD_LOOKS_MAX = 4096;

/** Entries with damaged rows that one walk leaves out: as many as a page of the disk holds, some microseconds each. */
const DAMAGED_MAX = 128;

/**
 * Up to `most` due entries, in order within each lane. Examines at most twice as many entries of a lane: except for
 * different clocks of two leaders, entries that are not due come after those that are. Those of a clock that was ahead
 * may lie in front of any, so they are examined besides, up to a bound. An entry whose row, or that of its object, was
 * changed by the disk is left out and told in `damages`: its object stays.
 */
export function gcDue(
  state: State,
  { nowMs, usualMs, mergedMs }: GcDeadlines,
  most: number,
  damages?: RowDamage[],
): GcEntry[] {
  const before = { [GC_IMMEDIATE]: Infinity, [GC_USUAL]: usualMs, [GC_MERGED]: mergedMs };
  const due: GcEntry[] = [];
  for (const gcClass of GC_CLASSES) {
    if (due.length === most) break;
    const bounds = { most: most - due.length, looks: 2 * most, nowMs, damages };
    due.push(...queued(state, gcClass * CLASS_SEQS, bounds, (row) => queuedMs(row) < before[gcClass]).entries);
  }
  return due;
}

/** Entries of one bucket, immediate ones first. `from` is where an earlier walk ended; undefined: the beginning. */
export function gcOfBucket(
  state: State,
  bucket: string,
  { most, looks }: GcBounds,
  from = GC_IMMEDIATE * CLASS_SEQS,
): GcWalk {
  const name = encodeUtf8(bucket);
  const isOfBucket = (row: Uint8Array): boolean => equalsPart(name, row, GC_ROW.size, row.length - GC_ROW.size);
  const first = Math.floor(from / CLASS_SEQS);
  const entries: GcEntry[] = [];
  let left = looks;
  for (const gcClass of GC_CLASSES.slice(GC_CLASSES.findIndex((one) => one === first))) {
    const start = gcClass === first ? from : gcClass * CLASS_SEQS;
    const walk = queued(state, start, { most: most - entries.length, looks: left }, isOfBucket);
    entries.push(...walk.entries);
    left -= walk.looked;
    if (walk.next !== undefined) return { entries, next: walk.next };
  }
  return { entries, next: undefined };
}

function queuedMs(row: Uint8Array): number {
  return GC_ROW.fields.queuedMs.get(viewOf(row), 0);
}

function objectOf(row: Uint8Array): ObjectId {
  return decodeObjectId(row, GC_ROW.fields.object.at);
}

/** Wanted entries of a lane, from `start` on. */
function queued(
  state: State,
  start: number,
  { most, looks, nowMs = Infinity, damages }: GcBounds,
  wanted: (row: Uint8Array) => boolean,
): GcWalk & { readonly looked: number } {
  const entries: GcEntry[] = [];
  const end = (Math.floor(start / CLASS_SEQS) + 1) * CLASS_SEQS;
  const leaveOut = (error: unknown): RowDamage => {
    if (!(error instanceof RowDamage) || damages === undefined || damages.length >= DAMAGED_MAX) throw error;
    damages.push(error);
    return error;
  };
  const front = taggedKey(state.prefix, TAG.gc);
  const keyOf = (seq: number): Uint8Array => incarnationKey(state.prefix, TAG.gc, seq);
  let looked = 0;
  let ahead = 0;
  let next: number | undefined;
  let from = start;
  const look = (key: Uint8Array, row: Uint8Array): boolean => {
    if (queuedMs(row) > nowMs && ahead < AHEAD_LOOKS_MAX) ahead++;
    else looked++;
    const seq = sequenceOf(key);
    from = seq + 1;
    try {
      if (wanted(row)) entries.push(entryOf(state, seq, row.slice()));
    } catch (error) {
      leaveOut(error);
    }
    if (entries.length < most && looked < looks) return true;
    next = from;
    return false;
  };
  for (let isOver = false; !isOver;) {
    try {
      state.overlay.range(keyOf(from), keyOf(end), false, look);
      isOver = true;
    } catch (error) {
      const { key } = leaveOut(error);
      // A page that cannot be read is told by where the walk began.
      if (!equalsPart(front, key, 0, front.length) || sequenceOf(key) < from) throw error;
      from = sequenceOf(key) + 1;
    }
  }
  return { entries, next, looked };
}

function entryOf(state: State, seq: number, row: Uint8Array): GcEntry {
  const { object, key, bucket, bytes: size, gcSeq } = neededObject(state, objectOf(row));
  needRow(gcSeq === seq, incarnationKey(state.prefix, TAG.gc, seq), OTHER_OBJECT);
  return {
    seq,
    object,
    key,
    bucket,
    bytes: size,
    queuedMs: queuedMs(row),
    gcClass: GC_ROW.decode(row).gcClass as GcClass,
  };
}
