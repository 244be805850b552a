/**
 * Published snapshots of a group's streams: application bytes, in rows of one page. A snapshot published since the last
 * flush is held as received; the next flush writes its rows.
 *
 *  's' row 0:    format u8 | digest, 32 bytes | offset f64 | record f64 | size f64 | content type
 *  's' row n>0:  PAGE_VALUE_BYTES of the snapshot; the last one has the remainder
 */
import { needRow, neededRow } from '../../base/row-damage.ts';
import { assert } from '../../base/assert.ts';
import { PAGE_VALUE_BYTES } from '../../base/limits.ts';
import { DIGEST_BYTES } from '../../protocol/cold.ts';
import { Reader, Writer, textFieldBytes } from '../../base/cursor.ts';
import { TAG, positionKey } from './keys.ts';
import type { Tx } from '../../base/tx.ts';

const FORMAT = 1;
const NOTHING = new Uint8Array(0);

export interface Snapshot {
  /** Position that it covers, and the ordinal of the first record after it. */
  readonly offset: number;
  readonly record: number;
  readonly contentType: string;
  readonly digest: Uint8Array;
  readonly size: number;
}

interface Pending {
  readonly snapshot: Snapshot;
  readonly bytes: Uint8Array;
}

export class Snapshots {
  readonly #prefix: number;
  /** By incarnation. */
  readonly #pending = new Map<number, Pending>();

  constructor(prefix: number) {
    this.#prefix = prefix;
  }

  /** Replaces the published snapshot; `bytes` must not change afterwards. */
  put(incarnation: number, snapshot: Snapshot, bytes: Uint8Array): void {
    this.#pending.set(incarnation, { snapshot, bytes });
  }

  /** The stream was removed: pending rows never reach the store. */
  drop(incarnation: number): void {
    this.#pending.delete(incarnation);
  }

  of(tx: Tx, incarnation: number): Snapshot {
    const pending = this.#pending.get(incarnation);
    if (pending !== undefined) return pending.snapshot;
    return decodeSnapshot(neededRow(tx, this.#key(incarnation, 0)));
  }

  /** Bytes of the snapshot from `from` on, at most `most`. */
  bytes(tx: Tx, incarnation: number, size: number, from: number, most: number): Uint8Array {
    const to = Math.min(size, from + most);
    if (to <= from) return NOTHING;
    const pending = this.#pending.get(incarnation);
    if (pending !== undefined) return pending.bytes.subarray(from, to);
    const bytes = new Uint8Array(to - from);
    for (let at = from; at < to;) {
      const part = Math.floor(at / PAGE_VALUE_BYTES);
      const key = this.#key(incarnation, part + 1);
      const row = tx.get(key);
      const start = part * PAGE_VALUE_BYTES;
      needRow(row !== undefined && at - start < row.length, key, `it has no byte ${at} of a snapshot`);
      const piece = row.subarray(at - start, to - start);
      bytes.set(piece, at - from);
      at += piece.length;
    }
    return bytes;
  }

  flush(tx: Tx): void {
    for (const [incarnation, { snapshot, bytes }] of this.#pending) {
      tx.put(this.#key(incarnation, 0), encode(snapshot));
      let part = 1;
      for (let at = 0; at < bytes.length; at += PAGE_VALUE_BYTES) {
        tx.put(this.#key(incarnation, part++), bytes.subarray(at, at + PAGE_VALUE_BYTES));
      }
      this.#deleteBehind(tx, incarnation, part);
    }
  }

  /** The commit of the last flush() is done. */
  flushed(): void {
    this.#pending.clear();
  }

  /** Deletes parts of a longer previous snapshot. */
  #deleteBehind(tx: Tx, incarnation: number, part: number): void {
    const keys: Uint8Array[] = [];
    tx.keys(this.#key(incarnation, part), this.#key(incarnation, Number.MAX_SAFE_INTEGER), (key) => {
      keys.push(key.slice());
      return true;
    });
    for (const key of keys) tx.delete(key);
  }

  #key(incarnation: number, part: number): Uint8Array {
    return positionKey(this.#prefix, TAG.snapshot, incarnation, part);
  }
}

function encode({ offset, record, contentType, digest, size }: Snapshot): Uint8Array {
  const writer = new Writer(new Uint8Array(1 + DIGEST_BYTES + 24 + textFieldBytes(contentType)));
  writer.u8(FORMAT);
  writer.raw(digest);
  writer.int53(offset);
  writer.int53(record);
  writer.int53(size);
  writer.text(contentType);
  return writer.finish();
}

export function decodeSnapshot(row: Uint8Array): Snapshot {
  assert(row[0] === FORMAT, 'known snapshot format');
  const reader = new Reader(row.subarray(1));
  const digest = reader.ownBytes(DIGEST_BYTES);
  const [offset, record, size] = [reader.int53(), reader.int53(), reader.int53()];
  const contentType = reader.text();
  assert(reader.finished, 'a snapshot row is well-formed');
  return { offset, record, contentType, digest, size };
}
