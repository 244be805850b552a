/**
 * A running hash of the logical rows of each group on a disk: what replicas that applied the same index must share
 *. Kept up row by row, so that every checkpoint of every node can be compared.
 *
 * Left out, because replicas may differ there: the two bytes of prefix, garbage marks, rows of incarnations whose head
 * is gone, and of living ones those in front of their hotStart (both are reclaimed some time later).
 */
import { TAG } from '../../src/stream/core/keys.ts';
import { PAGE_VALUE_BYTES } from '../../src/base/limits.ts';
import { MOVED_PREFIX } from '../../src/store/rows.ts';

const BY_INCARNATION: ReadonlySet<number> = new Set([TAG.attributes, TAG.data, TAG.producer, TAG.record]);
/**
 * Position of the incarnation in an encoded head (stream/core/head.ts), and of the
 * positions below which rows are garbage.
 */
const HEAD_INCARNATION_AT = 8;
const HEAD_HOT_START_AT = 104;
const HEAD_HOT_RECORD_AT = 112;

/** Rows of one incarnation by the positions that a living head may leave behind. */
class Positions {
  #hash = 0;
  #from = 0;
  readonly #rows = new Map<number, number>();

  get hash(): number {
    return this.#hash;
  }

  changed(position: number, change: number): void {
    if (position >= this.#from) this.#hash ^= change;
    const hash = (this.#rows.get(position) ?? 0) ^ change;
    if (hash === 0) this.#rows.delete(position);
    else this.#rows.set(position, hash);
  }

  /** Rows below `from` do not count. It moves back when a crash undoes what was not synced. */
  startAt(from: number): void {
    if (from === this.#from) return;
    const low = Math.min(from, this.#from);
    const high = Math.max(from, this.#from);
    for (const [position, hash] of this.#rows) if (position >= low && position < high) this.#hash ^= hash;
    this.#from = from;
  }
}

class Incarnation {
  others = 0;
  readonly data = new Positions();
  readonly records = new Positions();

  get hash(): number {
    return this.others ^ this.data.hash ^ this.records.hash;
  }
}

interface Half {
  others: number;
  readonly incarnations: Map<number, Incarnation>;
  /** By head key. */
  readonly living: Map<string, number>;
}

export class RowHash {
  readonly #halves = new Map<number, Half>();

  changed(key: string, before: Uint8Array | undefined, after: Uint8Array | undefined): void {
    const prefix = (key.charCodeAt(0) << 8) | key.charCodeAt(1);
    if (prefix >= MOVED_PREFIX) return;
    const half = this.#half(prefix);
    const tag = key.charCodeAt(2);
    if (tag === TAG.garbage) return;
    const change = (before === undefined ? 0 : hashRow(key, before)) ^ (after === undefined ? 0 : hashRow(key, after));
    if (BY_INCARNATION.has(tag)) {
      const incarnation = incarnationOf(half, numberAt(key, 3, 6));
      if (tag === TAG.data) incarnation.data.changed(numberAt(key, 9, 8), change);
      else if (tag === TAG.record) incarnation.records.changed(numberAt(key, 9, 8), change);
      else incarnation.others ^= change;
      return;
    }
    half.others ^= change;
    if (tag !== TAG.head) return;
    if (after === undefined) {
      half.living.delete(key);
      return;
    }
    const view = new DataView(after.buffer, after.byteOffset);
    const number = view.getFloat64(HEAD_INCARNATION_AT, true);
    half.living.set(key, number);
    incarnationOf(half, number).data.startAt(view.getFloat64(HEAD_HOT_START_AT, true));
    incarnationOf(half, number).records.startAt(view.getFloat64(HEAD_HOT_RECORD_AT, true));
  }

  /** Hash of the rows under `prefix`. */
  of(prefix: number): number {
    const { others, incarnations, living } = this.#half(prefix);
    let hash = others;
    for (const incarnation of living.values()) hash ^= Math.imul(incarnations.get(incarnation)?.hash ?? 0, 0x9e3779b1);
    return hash >>> 0;
  }

  #half(prefix: number): Half {
    let half = this.#halves.get(prefix);
    if (half === undefined) {
      half = { others: 0, incarnations: new Map(), living: new Map() };
      this.#halves.set(prefix, half);
    }
    return half;
  }
}

/** A stored row without its checksum, which also covers the prefix (src/store/row-check.ts). */
export function bare(stored: Uint8Array | undefined): Uint8Array | undefined {
  if (stored?.length !== PAGE_VALUE_BYTES) return stored?.subarray(0, Math.max(0, stored.length - 4));
  const page = stored.slice();
  for (const at of [1, 2, 3, 7]) page[at] = 0;
  return page;
}

function hashRow(key: string, value: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (let i = 2; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  hash ^= value.length;
  for (let i = 0; i < value.length; i++) hash = Math.imul(hash ^ (value[i] as number), 0x01000193);
  hash ^= hash >>> 15;
  return Math.imul(hash, 0x2c1b3c6d) ^ (hash >>> 13);
}

function incarnationOf(half: Half, number: number): Incarnation {
  let incarnation = half.incarnations.get(number);
  if (incarnation === undefined) half.incarnations.set(number, (incarnation = new Incarnation()));
  return incarnation;
}

function numberAt(key: string, at: number, size: number): number {
  let value = 0;
  for (let i = at; i < at + size; i++) value = value * 256 + key.charCodeAt(i);
  return value;
}
