/**
 * A digest of a group's rows, from one key on, as replicas that applied the same index have them. Left out is what may
 * differ between them:
 *
 * - garbage: each node deletes it when it has time. Its marks tell which rows are garbage.
 * - the meta row: versions before counted less in it. It says which index this state is of, and that has to be right.
 */
import { byteAt } from '../base/bytes.ts';
import { type RowBytes, eachRow } from '../base/row-bytes.ts';
import { type Digest, type RowQuestion, sumRow } from '../peer/codec/comparison.ts';
import { GARBAGE_MARK } from '../stream/core/garbage.ts';
import { TAG, bareIncarnationOf, barePositionOf, bareKey, prefixEnd, taggedKey } from '../stream/core/keys.ts';
import { decodeMeta } from '../stream/core/meta.ts';
import type { RowRange, ShardStorage, SnapshotReader } from './ports.ts';

/** Marks of garbage that are looked at: what a flush deletes within a second. With more there will be fewer later. */
const MARKS_MAX = 16_384;
/** A read of rows: larger than most, and some tenths of a millisecond. */
const CHUNK_BYTES = 64 * 1024;
/** Rows that a removed incarnation leaves behind. */
const LEFT_BEHIND: ReadonlySet<number> = new Set([TAG.attributes, TAG.data, TAG.producer, TAG.record, TAG.snapshot]);

export class RowDigest {
  readonly #reader: SnapshotReader;
  readonly #question: RowQuestion;
  /** By incarnation: what is garbage of it. */
  readonly #marks = new Map<number, Uint8Array>();
  #check = 0;
  #bytes = 0;
  #isRightIndex = false;

  constructor(storage: Pick<ShardStorage, 'openRanges'>, prefix: number, question: RowQuestion) {
    this.#question = question;
    const { from } = question;
    const of = (tag: number): RowRange => [taggedKey(prefix, tag), taggedKey(prefix, tag + 1)];
    const first = taggedKey(prefix, from[0] ?? 0, from.subarray(1));
    this.#reader = storage.openRanges([of(TAG.meta), of(TAG.garbage), [first, prefixEnd(first.subarray(0, 2))]]);
  }

  /** Reads about so many bytes. Undefined: there is more; otherwise it is over. Throws RowDamage. */
  step(bytesMax: number): Digest | 'impossible' | undefined {
    for (let read = 0; read < bytesMax;) {
      const rows = this.#reader.next(CHUNK_BYTES);
      if (rows === undefined) return this.#isRightIndex ? this.#digest(undefined) : 'impossible';
      read += rows.length;
      for (const { key, value } of eachRow(rows, 0)) {
        const bare = bareKey(key);
        if (!this.#note(bare, value)) return 'impossible';
        if (this.#isLeftOut(bare)) continue;
        if (this.#bytes >= this.#question.bytesMax) return this.#digest(bare.slice());
        this.#add({ key: bare, value });
      }
    }
    return undefined;
  }

  close(): void {
    this.#reader.close();
  }

  /** The meta row and the marks come first. False: these rows cannot be compared. */
  #note(key: Uint8Array, value: Uint8Array): boolean {
    if (key[0] === TAG.meta) this.#isRightIndex = decodeMeta(value).appliedIndex === this.#question.index;
    else if (key[0] === TAG.garbage) this.#marks.set(bareIncarnationOf(key), value.slice());
    return this.#isRightIndex && this.#marks.size <= MARKS_MAX;
  }

  #isLeftOut(key: Uint8Array): boolean {
    const tag = byteAt(key, 0);
    if (tag === TAG.meta || tag === TAG.garbage) return true;
    if (this.#marks.size === 0 || !LEFT_BEHIND.has(tag)) return false;
    const below = this.#marks.get(bareIncarnationOf(key));
    if (below === undefined) return false;
    if (below.length === 0) return true;
    const { offset, record } = GARBAGE_MARK.decode(below);
    if (tag === TAG.data) return barePositionOf(key) < offset;
    return tag === TAG.record && barePositionOf(key) < record;
  }

  #add(row: RowBytes): void {
    this.#bytes += row.key.length + row.value.length;
    this.#check = sumRow(this.#check, row);
  }

  #digest(to: Uint8Array | undefined): Digest {
    return { check: this.#check, bytes: this.#bytes, to };
  }
}
