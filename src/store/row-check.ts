/**
 * The checksum of each row of the state, a CRC-32C over its key and its value, so that a row in another's place is
 * noticed too. It follows the value, except where that would cost the row a second page (README, "Why it is so").
 */
import { crc32c } from '@node-rs/crc32';
import { byteAt, viewOf } from '../base/bytes.ts';
import { PAGE_VALUE_BYTES } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import { RowDamage } from '../base/row-damage.ts';
import { struct, u32, u8 } from '../base/struct.ts';
import type { Change } from './path-check.ts';
import { MOVED_PREFIX } from './rows.ts';

const CHECK_BYTES = u32(0).bytes;
/** A value that leaves less room than this in its page is stored as a full page. */
const ROOM_BYTES = 2 * CHECK_BYTES;
/** In a full page the checksum has the places of these bytes, and the form that of the last: in data rows all zero. */
const PLACES: readonly number[] = [1, 2, 3, 7, 6];
const FORM_AT = 6;
/** The form: the bytes that the value lacks of a page, and whether those whose places are taken have a row. */
const LACK = ROOM_BYTES - 1;
const MOVED = 0x80;
/** The value of the row under MOVED_PREFIX and the key. */
export const MOVED_ROW = struct({ byte1: u8, byte2: u8, byte3: u8, byte7: u8, byte6: u8 });

/** The calls of lmdb-js that are made for single rows. */
export interface RowTable {
  getBinaryFast(key: Uint8Array, options?: object): Uint8Array | undefined;
  putSync(key: Uint8Array, value: Uint8Array): unknown;
  removeSync(key: Uint8Array): unknown;
}

export interface CheckedRowsOptions {
  /** May throw. */
  readonly beforeWrite?: (key: Uint8Array, change: Change) => void;
  /** For lmdb-js, of reads. */
  readonly reads?: object;
  /** Told of each damaged row before it is thrown. */
  readonly noticed?: (damage: RowDamage) => void;
}

/** The rows of a table with their checksums. Reads throw RowDamage. */
export class CheckedRows {
  readonly #table: RowTable;
  readonly #options: CheckedRowsOptions;
  #scratch = new Uint8Array(2 * PAGE_VALUE_BYTES);

  constructor(table: RowTable, options: CheckedRowsOptions = {}) {
    this.#table = table;
    this.#options = options;
  }

  /** Valid until the next call on this object. */
  get(key: Uint8Array): Uint8Array | undefined {
    const stored = this.#stored(key);
    return stored === undefined ? undefined : this.open(key, stored, this.#scratch);
  }

  put(key: Uint8Array, value: Uint8Array): void {
    const { length } = value;
    if (isFull(length)) return this.#putFull(key, value);
    if (this.#scratch.length < length + CHECK_BYTES) this.#scratch = new Uint8Array(2 * (length + CHECK_BYTES));
    this.#scratch.set(value);
    viewOf(this.#scratch).setUint32(length, checkOf(key, value), true);
    this.#put(key, this.#scratch.subarray(0, length + CHECK_BYTES));
  }

  #put(key: Uint8Array, stored: Uint8Array): void {
    this.#options.beforeWrite?.(key, 'put');
    this.#table.putSync(key, stored);
  }

  delete(key: Uint8Array): void {
    for (const each of [key, movedKey(key)]) {
      this.#options.beforeWrite?.(each, 'delete');
      this.#table.removeSync(each);
    }
  }

  /** The value of a row as the table holds it. A full page is put together in `page`. */
  open(key: Uint8Array, stored: Uint8Array, page = new Uint8Array(PAGE_VALUE_BYTES)): Uint8Array {
    if (stored.length === PAGE_VALUE_BYTES) return this.#openFull(key, stored, page);
    const length = stored.length - CHECK_BYTES;
    if (length < 0) throw this.#damage(key, `it has ${stored.length} bytes`);
    const value = new Uint8Array(stored.buffer, stored.byteOffset, length);
    return this.#checked(key, value, viewOf(stored).getUint32(length, true));
  }

  /** A view: lmdb-js answers with its shared buffer and only sets a length, so that slice() would copy all of it. */
  #stored(key: Uint8Array): Uint8Array | undefined {
    const stored = this.#table.getBinaryFast(key, this.#options.reads);
    return stored === undefined ? undefined : new Uint8Array(stored.buffer, stored.byteOffset, stored.length);
  }

  #putFull(key: Uint8Array, value: Uint8Array): void {
    const page = this.#scratch.subarray(0, PAGE_VALUE_BYTES);
    page.set(value);
    page.fill(0, value.length);
    const moved = Uint8Array.from(PLACES, (at) => byteAt(value, at));
    const check = checkOf(key, value);
    for (let i = 0; i < CHECK_BYTES; i++) page[PLACES[i] as number] = check >>> (8 * i);
    const isMoved = moved.some((byte) => byte !== 0);
    page[FORM_AT] = (PAGE_VALUE_BYTES - value.length) | (isMoved ? MOVED : 0);
    this.#put(key, page);
    if (isMoved) this.#put(movedKey(key), moved);
  }

  #openFull(key: Uint8Array, stored: Uint8Array, page: Uint8Array): Uint8Array {
    // Before the next read, which overwrites it.
    page.set(stored);
    const form = byteAt(page, FORM_AT);
    let check = 0;
    for (let i = 0; i < CHECK_BYTES; i++) check |= byteAt(page, PLACES[i] as number) << (8 * i);
    const moved = (form & MOVED) === 0 ? undefined : this.#stored(movedKey(key));
    if ((form & MOVED) !== 0 && moved?.length !== MOVED_ROW.size) throw this.#damage(key, 'a part of it is missing');
    PLACES.forEach((at, i) => (page[at] = moved?.[i] ?? 0));
    return this.#checked(key, page.subarray(0, PAGE_VALUE_BYTES - (form & LACK)), check >>> 0);
  }

  #checked(key: Uint8Array, value: Uint8Array, check: number): Uint8Array {
    if (check !== checkOf(key, value) && !planted('row-checksum-ignored'))
      throw this.#damage(key, 'its checksum is that of another');
    return value;
  }

  #damage(key: Uint8Array, why: string): RowDamage {
    const damage = new RowDamage(key, why);
    this.#options.noticed?.(damage);
    return damage;
  }
}

function isFull(valueBytes: number): boolean {
  return valueBytes > PAGE_VALUE_BYTES - ROOM_BYTES && valueBytes <= PAGE_VALUE_BYTES;
}

function movedKey(key: Uint8Array): Uint8Array {
  const moved = new Uint8Array(2 + key.length);
  moved[0] = MOVED_PREFIX >> 8;
  moved[1] = MOVED_PREFIX & 0xff;
  moved.set(key, 2);
  return moved;
}

function checkOf(key: Uint8Array, value: Uint8Array): number {
  return crc32c(value, crc32c(key));
}
