/** Bucket quotas. Each group keeps the bound and never exceeds it alone; the sum over groups is enforced elsewhere. */
import { planted } from '../../base/planted.ts';
import { RowDamage } from '../../base/row-damage.ts';
import { decodeQuota } from '../../protocol/bucket-command.ts';
import type { Command } from '../../protocol/command.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { Bucket } from '../core/buckets.ts';
import { type Head, decodeHead } from '../core/head.ts';
import { NUL, TAG, equalsPart, incarnationKey, prefixEnd, restOf, taggedKey } from '../core/keys.ts';
import type { State } from '../core/state.ts';
import { refuse } from './append.ts';
import { eachHead } from './list.ts';

/** Streams examined per lookup: about a millisecond. */
const STREAMS_MAX = 256;
/** Producer rows added up per stream; further rows are not counted. */
const PRODUCERS_MAX = 1024;
/** Producer rows after which a lookup examines no further stream: a few milliseconds. */
const ROWS_MAX = 4096;
/** Buckets with a quota that are remembered; all are forgotten at once beyond this. */
const BUCKETS_MAX = 4096;
const NOTHING = new Uint8Array(0);

export function applyQuota(state: State, command: Command, reply: Reply): void {
  const quota = decodeQuota(command.payload());
  if (quota === undefined) return refuse(reply, 'INTERNAL');
  const bucket = state.buckets.of(state.tx, command.bytes, command.keyAt, command.keyBytes);
  if (bucket.streamsMax === quota.streamsMax && bucket.retainedBytesMax === quota.retainedBytesMax) return;
  bucket.streamsMax = quota.streamsMax;
  bucket.retainedBytesMax = quota.retainedBytesMax;
  if (!planted('quota-not-stored')) state.buckets.touch(bucket);
}

interface Pass {
  after: Uint8Array;
  sum: number;
  /** Result of the last complete pass. */
  whole: number;
}

/**
 * Bytes that count towards a bucket's quota in addition to those of its streams: published snapshots, attributes and
 * producer state. No gauge holds them, so they are looked up for a bounded number of streams and rows at a time. In a
 * bucket of many the figure is as recent as the last complete pass. A stream with a row that the disk changed ends a
 * lookup and does not count: it would refuse the writes to all others.
 */
export class QuotaExtras {
  readonly #passes = new Map<string, Pass>();

  of(state: State, bucket: Bucket): number {
    const pass = this.#passOf(bucket.text);
    let streams = 0;
    let rows = 0;
    let { sum } = pass;
    let isWhole = true;
    let last: Uint8Array = NOTHING;
    const look = (key: Uint8Array, changed: Head | undefined, row: Uint8Array | undefined): boolean => {
      isWhole = streams++ < STREAMS_MAX && rows < ROWS_MAX;
      if (!isWhole) return false;
      last = key.slice(bucket.name.length + 1);
      const head = changed ?? decodeHead(key.slice(), 0, row as Uint8Array);
      if (head.dead) return true;
      const producers = producersOf(state, head);
      sum += producers.bytes + bytesOf(state, head);
      rows += producers.rows;
      return true;
    };
    try {
      eachHead(state, bucket.name, NOTHING, pass.after, look);
    } catch (error) {
      last = damagedName(state, bucket, error) ?? last;
      if (!(error instanceof RowDamage) || last === NOTHING) throw error;
      isWhole = false;
    }
    if (isWhole) {
      pass.whole = sum;
      pass.sum = 0;
      pass.after = NOTHING;
      return sum;
    }
    pass.sum = sum;
    pass.after = last;
    return Math.max(pass.whole, sum);
  }

  #passOf(name: string): Pass {
    const known = this.#passes.get(name);
    if (known !== undefined) return known;
    if (this.#passes.size >= BUCKETS_MAX) this.#passes.clear();
    const pass = { after: NOTHING, sum: 0, whole: 0 };
    this.#passes.set(name, pass);
    return pass;
  }
}

/** The stream whose head the disk changed; undefined: another row is damaged, or which one cannot be told. */
function damagedName(state: State, bucket: Bucket, error: unknown): Uint8Array | undefined {
  const heads = taggedKey(state.prefix, TAG.head);
  if (!(error instanceof RowDamage) || !equalsPart(heads, error.key, 0, heads.length)) return undefined;
  const name = restOf(error.key).slice(bucket.name.length + 1);
  // A walk that cannot begin names its beginning.
  return name.length === 0 || name.at(-1) === NUL ? undefined : name;
}

/** Its published snapshot and its attributes. */
function bytesOf(state: State, head: Head): number {
  const bytes = head.snapshotOffset < 0 ? 0 : state.snapshots.of(state.tx, head.incarnation).size;
  return bytes + (head.hasAttributes ? (state.attributes(head)?.length ?? 0) : 0);
}

/** Reads the stored rows: those of the last second may be missing. */
function producersOf(state: State, head: Head): { readonly rows: number; readonly bytes: number } {
  let rows = 0;
  let bytes = 0;
  if (!head.hasProducers) return { rows, bytes };
  const start = incarnationKey(state.prefix, TAG.producer, head.incarnation);
  state.tx.range(start, prefixEnd(start), false, (key, value) => {
    bytes += key.length + value.length;
    return ++rows < PRODUCERS_MAX;
  });
  return { rows, bytes };
}
