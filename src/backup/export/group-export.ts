/** Turns a group's rows in one read transaction into the pieces of a document, one at a time. */
import { DocumentWriter } from '../format/document.ts';
import { toHex } from '../../base/hex.ts';
import { assert } from '../../base/assert.ts';
import { type Hasher, createHasher } from '../../digest/blake3.ts';
import { Canonical } from '../../stream/backup/canonical.ts';
import { BACKUP_TAGS } from '../../stream/backup/rows.ts';
import { WithoutKeys } from '../../stream/backup/without-keys.ts';
import { decodeBucket } from '../../stream/core/buckets.ts';
import { TAG } from '../../stream/core/keys.ts';
import { decodeMeta } from '../../stream/core/meta.ts';

/** Bytes before a key's tag. */
const PREFIX_BYTES = 2;
/** Documents up to this size come with their digest. */
const HELD_BYTES_MAX = 1024 * 1024;

/** One read transaction of a shard's store. */
export interface GroupRows {
  /** The row whose key is just its tag. */
  row(tag: number): Uint8Array | undefined;
  /** All rows of these kinds, one kind after the other; keys include their prefix. */
  rows(tags: readonly number[]): Iterable<{ readonly key: Uint8Array; readonly value: Uint8Array }>;
  /** Its user paused: what it looked at ahead may have changed. */
  lookAgain(): void;
  close(): void;
}

/** The shard's reply when it allowed the export. */
export interface ExportOrder {
  readonly group: number;
  readonly groupCount: number;
  /** Number of applied commands, and the origin of the group's objects. */
  readonly commitIndex: number;
  readonly origin: string;
}

/** The start of a document: all of it with its digest when it is small, otherwise its first part. */
export interface ExportBeginning {
  readonly commitIndex: number;
  readonly digest: string | undefined;
  readonly pieces: readonly Uint8Array<ArrayBuffer>[];
}

export class GroupExport {
  readonly #source: GroupRows;
  readonly #rows: Iterator<{ readonly key: Uint8Array; readonly value: Uint8Array }>;
  readonly #document: DocumentWriter;
  readonly #canonical: Canonical;
  readonly #commitIndex: number;
  readonly #pieces: Uint8Array<ArrayBuffer>[] = [];
  /** Undefined: the document is too large for a digest in front of it. */
  #hasher: Hasher | undefined = createHasher();
  #buckets = 0;
  #streams = 0;
  #ended = false;

  constructor(source: GroupRows, order: ExportOrder) {
    this.#source = source;
    this.#rows = source.rows(BACKUP_TAGS)[Symbol.iterator]();
    const row = source.row(TAG.meta);
    // A group without a checkpoint has no such row.
    const meta = row && decodeMeta(row);
    // Another checkpoint may have come since; an earlier one would not satisfy the request.
    this.#commitIndex = meta?.appliedCommands ?? order.commitIndex;
    assert(this.#commitIndex >= order.commitIndex, 'the store shows the checkpoint that the export asked for');
    const origin = meta?.cold.origin ?? order.origin;
    const { group, groupCount } = order;
    const document = new DocumentWriter({ group, groupCount, commitIndex: this.#commitIndex, origin }, (piece) => {
      this.#hasher?.update(piece);
      this.#pieces.push(piece);
    });
    this.#document = document;
    const withoutKeys = new WithoutKeys((key, value) => document.row(key, value));
    this.#canonical = new Canonical((key, value) => {
      if (key[0] === TAG.head) this.#streams++;
      else if (key[0] === TAG.bucket && decodeBucket(key.slice(1), value).exists) this.#buckets++;
      withoutKeys.row(key, value);
    });
  }

  /** Call first, once. */
  begin(): ExportBeginning {
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    let bytes = 0;
    for (let piece = this.next(); piece !== undefined; piece = this.next()) {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes >= HELD_BYTES_MAX) break;
    }
    const hasAll = this.#ended && this.#pieces.length === 0;
    const digest = hasAll && this.#hasher !== undefined ? toHex(this.#hasher.digest()) : undefined;
    this.#hasher = undefined;
    return { commitIndex: this.#commitIndex, digest, pieces };
  }

  /** The next piece, in its own memory; undefined at the end. */
  next(): Uint8Array<ArrayBuffer> | undefined {
    this.#source.lookAgain();
    while (this.#pieces.length === 0 && !this.#ended) {
      const row = this.#rows.next();
      if (row.done !== true) this.#canonical.row(row.value.key.subarray(PREFIX_BYTES), row.value.value);
      else {
        this.#ended = true;
        this.#document.end(this.#buckets, this.#streams);
      }
    }
    return this.#pieces.shift();
  }

  close(): void {
    this.#rows.return?.();
    this.#source.close();
  }
}
