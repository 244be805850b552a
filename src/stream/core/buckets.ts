/**
 * Buckets of a group with their usage meter and quota. The row outlives the bucket: after a purge or a delete the
 * counters stay, the gauges are zero and `exists` is false. A quota may be set before the bucket exists.
 */
import { assert } from '../../base/assert.ts';
import { WRITE_UNIT_BYTES } from '../../base/limits.ts';
import { f64, f64OrNone, struct, u8, zeros } from '../../base/struct.ts';
import { readText } from '../../base/text.ts';
import { planted } from '../../base/planted.ts';
import { compareBytes } from '../../base/bytes.ts';
import { walkMerged } from '../../base/overlay.ts';
import { TAG, equalsPart, hashBytes, prefixEnd, restOf, taggedKey } from './keys.ts';
import type { Tx } from '../../base/tx.ts';

const FORMAT = 2;
export const BUCKET_ROW = struct({
  ...{ format: u8, exists: u8, zeros: zeros(6), appendBytes: f64, records: f64, writeUnits: f64, retainedBytes: f64 },
  ...{ streamCount: f64, streamsMax: f64OrNone, retainedBytesMax: f64OrNone },
});

export interface Bucket {
  readonly name: Uint8Array;
  readonly text: string;
  /** A stream was created here, and the bucket was not removed since. */
  exists: boolean;
  /** Monotonic counters. */
  appendBytes: number;
  records: number;
  writeUnits: number;
  /** Gauges. */
  retainedBytes: number;
  streamCount: number;
  /** Quota on this group's gauges; -1 means none. A purge erases it; removing the empty bucket does not. */
  streamsMax: number;
  retainedBytesMax: number;
  dirty: boolean;
}

/** Units of one committed operation on `bytes` canonical bytes. */
export function writeUnits(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / WRITE_UNIT_BYTES));
}

/** Whether `size` more bytes would exceed the quota. */
export function exceedsRetained(bucket: Bucket, size: number): boolean {
  const added = planted('quota-lets-one-more-in') ? 0 : size;
  return bucket.retainedBytesMax >= 0 && bucket.retainedBytes + added > bucket.retainedBytesMax;
}

/** Whether any usage was ever metered. A row that exists only for a quota is not in the usage report. */
export function isMetered(bucket: Bucket): boolean {
  return bucket.writeUnits > 0;
}

/** Buckets touched since the last flush plus a bounded number of clean ones. */
const CLEAN_MAX = 1024;

export class Buckets {
  readonly #prefix: number;
  readonly #cache = new Map<number, Bucket[]>();
  #size = 0;
  #dirty: Bucket[] = [];
  /** The most recent lookup: consecutive requests often name the same bucket. */
  #last: Bucket | undefined;

  constructor(prefix: number) {
    this.#prefix = prefix;
  }

  /** The bucket named by a part of `bytes`; a new, not yet existing one when unknown. */
  of(tx: Tx, bytes: Uint8Array, start: number, length: number): Bucket {
    const last = this.#last;
    if (last !== undefined && equalsPart(last.name, bytes, start, length)) return last;
    const bucket = this.#find(tx, bytes, start, length);
    this.#last = bucket;
    return bucket;
  }

  #find(tx: Tx, bytes: Uint8Array, start: number, length: number): Bucket {
    const hash = hashBytes(bytes, start, length);
    for (const bucket of this.#cache.get(hash) ?? []) {
      if (equalsPart(bucket.name, bytes, start, length)) return bucket;
    }
    const name = bytes.slice(start, start + length);
    const row = tx.get(taggedKey(this.#prefix, TAG.bucket, name));
    const bucket = row === undefined ? newBucket(name) : decodeBucket(name, row);
    if (this.#size >= CLEAN_MAX) this.#forgetClean();
    const kept = this.#cache.get(hash);
    if (kept === undefined) this.#cache.set(hash, [bucket]);
    else kept.push(bucket);
    this.#size++;
    return bucket;
  }

  touch(bucket: Bucket): void {
    if (bucket.dirty) return;
    bucket.dirty = true;
    this.#dirty.push(bucket);
  }

  get dirtyCount(): number {
    return this.#dirty.length;
  }

  flush(tx: Tx): void {
    for (const bucket of this.#dirty) {
      tx.put(taggedKey(this.#prefix, TAG.bucket, bucket.name), encodeBucket(bucket));
    }
  }

  /** The commit of the last flush() is done. */
  flushed(): void {
    for (const bucket of this.#dirty) bucket.dirty = false;
    this.#dirty = [];
  }

  /** Visits buckets after `after` in byte order of names, flushed or not, until `visit` returns false. */
  each(tx: Tx, after: Uint8Array, visit: (bucket: Bucket) => boolean): void {
    const changed = this.#dirty
      .filter(({ name }) => after.length === 0 || compareBytes(name, after) > 0)
      .map((bucket) => ({ key: bucket.name, bucket }))
      .sort((a, b) => compareBytes(a.key, b.key));
    const end = prefixEnd(taggedKey(this.#prefix, TAG.bucket));
    const eachRow = (each: (name: Uint8Array, row: Uint8Array) => boolean): void =>
      tx.range(taggedKey(this.#prefix, TAG.bucket, after), end, false, (key, row) => {
        const name = restOf(key);
        return (after.length > 0 && compareBytes(name, after) === 0) || each(name, row);
      });
    const visitRow = (name: Uint8Array, row: Uint8Array): boolean => visit(decodeBucket(name.slice(), row));
    walkMerged(changed, 1, eachRow, ({ bucket }) => visit(bucket), visitRow);
  }

  /** Rows entered the store without passing through this cache. */
  forget(): void {
    assert(this.#dirty.length === 0, 'buckets of an empty group are clean');
    this.#forgetClean();
  }

  /** Drops all clean buckets. Dirty ones stay, because the store does not have them yet. */
  #forgetClean(): void {
    this.#cache.clear();
    this.#last = undefined;
    this.#size = 0;
    for (const bucket of this.#dirty) {
      const hash = hashBytes(bucket.name, 0, bucket.name.length);
      const chain = this.#cache.get(hash);
      if (chain === undefined) this.#cache.set(hash, [bucket]);
      else chain.push(bucket);
      this.#size++;
    }
  }
}

function newBucket(name: Uint8Array): Bucket {
  return {
    name,
    text: readText(name, 0, name.length),
    exists: false,
    appendBytes: 0,
    records: 0,
    writeUnits: 0,
    retainedBytes: 0,
    streamCount: 0,
    streamsMax: -1,
    retainedBytesMax: -1,
    dirty: false,
  };
}

export function encodeBucket(bucket: Bucket): Uint8Array {
  return BUCKET_ROW.encode({ ...bucket, format: FORMAT, exists: bucket.exists ? 1 : 0 });
}

export function decodeBucket(name: Uint8Array, row: Uint8Array): Bucket {
  assert(row[0] === FORMAT && row.length === BUCKET_ROW.size, 'known bucket row format');
  const { format: _format, exists, ...counted } = BUCKET_ROW.decode(row);
  return { ...newBucket(name), ...counted, exists: exists === 1 };
}
