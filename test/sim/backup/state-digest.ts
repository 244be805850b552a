/**
 * The part of a group that a backup must preserve, derived from the raw rows of a store by independent rules: it
 * judges the product's way from rows to a document (stream/backup/canonical.ts, validate.ts).
 */
import { Buffer } from 'node:buffer';
import { decodeChunkRow, decodeObjectId } from '../../../src/protocol/cold.ts';
import { decodeTombstone } from '../../../src/stream/core/fork-rows.ts';
import { type Head, decodeHead } from '../../../src/stream/core/head.ts';
import { TAG, lastPosition, bareIncarnationOf, timedIncarnationOf } from '../../../src/stream/core/keys.ts';
import { latin1 } from '../../support/sorted-rows.ts';

/** Key without the prefix, value. */
export type RawRow = readonly [key: Uint8Array, value: Uint8Array];

export interface Gauges {
  readonly buckets: number;
  readonly streams: number;
  readonly hotBytes: number;
  readonly coldBytes: number;
  readonly objects: number;
  readonly objectBytes: number;
  readonly nextIncarnation: number;
}

export interface StateDigest {
  /** Everything that is preserved, indexes included. */
  readonly rows: ReadonlyMap<string, string>;
  readonly heads: readonly Head[];
  readonly gauges: Gauges;
  /** From the meta row, when there is one. */
  readonly appliedIndex: number;
  readonly appliedCommands: number;
  readonly origin: string;
}

/** Offsets in an object row (stream/cold/objects.ts), a bucket row and the meta row. */
const REFS_AT = 0;
const OBJECT_BYTES_AT = 8;
const GC_SEQ_AT = 16;
const META_ORIGIN_AT = 80;
const META_APPLIED_COMMANDS_AT = 96;

const viewOf = (value: Uint8Array): DataView => new DataView(value.buffer, value.byteOffset, value.byteLength);

class Digester {
  readonly rows = new Map<string, string>();
  readonly heads = new Map<number, Head>();
  /** References of living streams, by object. */
  readonly #refs = new Map<string, number>();
  /** Incarnations and starts of those that are kept. */
  readonly #chunks = new Set<string>();
  /** Incarnations of tombstones. */
  readonly #tombstones = new Set<number>();
  #coldBytes = 0;
  #objectBytes = 0;
  #objects = 0;
  #buckets = 0;
  appliedIndex = 0;
  appliedCommands = 0;
  origin = '';

  /** First heads, then chunks, then the rest: rows come in the order of their tags. */
  take(rows: readonly RawRow[]): void {
    for (const [key, value] of rows) if (key[0] === TAG.head) this.#head(key, value);
    for (const [key, value] of rows)
      if (key[0] === TAG.tombstone) this.#tombstones.add(decodeTombstone(value).incarnation);
    for (const [key, value] of rows) if (key[0] === TAG.chunk) this.#chunk(key, value);
    for (const [key, value] of rows) this.#other(key[0] as number, key, value);
  }

  #keep(key: Uint8Array, value: Uint8Array): void {
    this.rows.set(latin1(key), latin1(value));
  }

  #head(key: Uint8Array, value: Uint8Array): void {
    const head = decodeHead(key.slice(1), 0, value);
    this.heads.set(head.incarnation, head);
    this.#keep(key, value);
  }

  /** One below the floor waits for its release. */
  #chunk(key: Uint8Array, value: Uint8Array): void {
    const head = this.heads.get(bareIncarnationOf(key));
    const { start, end, object } = decodeChunkRow(value);
    if (head === undefined || end <= head.startOffset) return;
    this.#keep(key, value);
    this.#coldBytes += end - start;
    const id = `${object.run}-${object.seq}`;
    this.#refs.set(id, (this.#refs.get(id) ?? 0) + 1);
    this.#chunks.add(`${head.incarnation}/${start}`);
  }

  #other(tag: number, key: Uint8Array, value: Uint8Array): void {
    switch (tag) {
      case TAG.meta:
        this.#meta(value);
        return;
      case TAG.bucket:
        if (value[1] === 1) this.#buckets++;
        this.#keep(key, value);
        return;
      case TAG.tombstone:
      case TAG.unpin:
        this.#keep(key, value);
        return;
      case TAG.object:
        this.#object(key, value);
        return;
      case TAG.expiry:
      case TAG.flush: {
        const head = this.heads.get(timedIncarnationOf(Uint8Array.of(0, 0, ...key)));
        const listed = tag === TAG.expiry ? head?.indexedDeadlineMs : head?.hotSinceMs;
        if (listed === Number(viewOf(key).getBigUint64(1))) this.#keep(key, value);
        return;
      }
      case TAG.chunkRecord:
        if (this.#chunks.has(`${bareIncarnationOf(key)}/${viewOf(value).getFloat64(0, true)}`)) this.#keep(key, value);
        return;
      default:
        if (this.#ofLiving(tag, key)) this.#keep(key, value);
    }
  }

  #ofLiving(tag: number, key: Uint8Array): boolean {
    const incarnation = bareIncarnationOf(key);
    if (tag === TAG.pin && this.#tombstones.has(incarnation)) return true;
    const head = this.heads.get(incarnation);
    if (head === undefined) return false;
    if (tag === TAG.fork || tag === TAG.pin) return true;
    if (tag === TAG.data) return lastPosition(key) >= head.hotStart;
    if (tag === TAG.record) return lastPosition(key) >= head.hotRecord;
    return tag === TAG.attributes || tag === TAG.producer || tag === TAG.snapshot;
  }

  #object(key: Uint8Array, value: Uint8Array): void {
    const { run, seq } = decodeObjectId(key, 1);
    const refs = this.#refs.get(`${run}-${seq}`);
    if (refs === undefined) return;
    const row = value.slice();
    viewOf(row).setUint32(REFS_AT, refs, true);
    viewOf(row).setFloat64(GC_SEQ_AT, -1, true);
    this.#keep(key, row);
    this.#objects++;
    this.#objectBytes += viewOf(row).getFloat64(OBJECT_BYTES_AT, true);
  }

  #meta(value: Uint8Array): void {
    this.appliedIndex = viewOf(value).getFloat64(8, true);
    this.appliedCommands = viewOf(value).getFloat64(META_APPLIED_COMMANDS_AT, true);
    this.origin = latin1(value.subarray(META_ORIGIN_AT, META_ORIGIN_AT + 16));
  }

  get gauges(): Gauges {
    let hotBytes = 0;
    let nextIncarnation = 1;
    for (const head of this.heads.values()) {
      hotBytes += head.tail - head.hotStart;
      nextIncarnation = Math.max(nextIncarnation, head.incarnation + 1);
    }
    for (const incarnation of this.#tombstones) nextIncarnation = Math.max(nextIncarnation, incarnation + 1);
    return {
      buckets: this.#buckets,
      streams: this.heads.size,
      hotBytes,
      coldBytes: this.#coldBytes,
      objects: this.#objects,
      objectBytes: this.#objectBytes,
      nextIncarnation,
    };
  }
}

export function digestState(rows: readonly RawRow[]): StateDigest {
  const digester = new Digester();
  digester.take(rows);
  const { appliedIndex, appliedCommands, origin, gauges } = digester;
  return { rows: digester.rows, heads: [...digester.heads.values()], gauges, appliedIndex, appliedCommands, origin };
}

/** In a sentence; undefined: none. */
export function rowsDiffer(
  expected: ReadonlyMap<string, string>,
  found: ReadonlyMap<string, string>,
): string | undefined {
  for (const [key, value] of expected) {
    const other = found.get(key);
    if (other === undefined) return `the row ${shown(key)} is missing`;
    if (other !== value) return `the row ${shown(key)} is ${hex(other)}, not ${hex(value)}`;
  }
  for (const key of found.keys())
    if (!expected.has(key)) return `there is a row ${shown(key)}, which the source did not have`;
  return undefined;
}

export function gaugesDiffer(expected: Gauges, found: Gauges): string | undefined {
  for (const name of Object.keys(expected) as (keyof Gauges)[]) {
    if (found[name] !== expected[name]) return `${name} is ${found[name]}, not ${expected[name]}`;
  }
  return undefined;
}

const hex = (text: string): string => Buffer.from(text.slice(0, 160), 'latin1').toString('hex');

function shown(key: string): string {
  return `${key[0] ?? ''} ${hex(key.slice(1))}`;
}
