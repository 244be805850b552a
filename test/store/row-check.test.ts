// The checksums of rows: what is written is read, whatever its length, and nothing else is; no checksum costs a page.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PAGE_VALUE_BYTES } from '../../src/base/limits.ts';
import { RowDamage } from '../../src/base/row-damage.ts';
import { CheckedRows } from '../../src/store/row-check.ts';
import { latin1 } from '../support/sorted-rows.ts';

class Table {
  readonly rows = new Map<string, Uint8Array>();

  getBinaryFast(key: Uint8Array): Uint8Array | undefined {
    return this.rows.get(latin1(key));
  }

  putSync(key: Uint8Array, value: Uint8Array): void {
    this.rows.set(latin1(key), value.slice());
  }

  removeSync(key: Uint8Array): void {
    this.rows.delete(latin1(key));
  }
}

const KEY = Uint8Array.of(0, 1, 0x64, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0);
const OTHER = KEY.map((byte, i) => (i === 8 ? 8 : byte));

/** A data row's head has zeros where a full page has its checksum; a snapshot's part has bytes. */
const asDataRow = (bytes: number): Uint8Array =>
  Uint8Array.from({ length: bytes }, (_, i) => (i === 0 ? 1 : i < 4 || i === 6 || i === 7 ? 0 : (i * 7) % 251));
const asSnapshot = (bytes: number): Uint8Array => Uint8Array.from({ length: bytes }, (_, i) => 255 - ((i * 3) % 256));

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const LENGTHS = [...range(0, 20), ...range(4055, 4080), ...range(8160, 8172), 100_000];
const pagesOf = (bytes: number): number => Math.ceil((24 + bytes) / 4096);

test('rows of every length come back, and no row of a page takes two', () => {
  for (const make of [asDataRow, asSnapshot]) {
    const table = new Table();
    const rows = new CheckedRows(table);
    for (const length of LENGTHS) {
      const value = make(length);
      rows.put(KEY, value);
      assert.deepEqual(rows.get(KEY), value, `${length} bytes`);
      const stored = table.rows.get(latin1(KEY))?.length ?? 0;
      if (length <= PAGE_VALUE_BYTES) assert.equal(pagesOf(stored), 1, `${length} bytes`);
      // A data row has room for its checksum.
      if (make === asDataRow) assert.equal(table.rows.size, 1, `${length} bytes`);
    }
    rows.delete(KEY);
    assert.equal(table.rows.size, 0);
  }
});

test('a full page in place of another with bytes of its own elsewhere reads as itself', () => {
  const rows = new CheckedRows(new Table());
  for (const value of [asSnapshot(PAGE_VALUE_BYTES), asDataRow(PAGE_VALUE_BYTES), asDataRow(4067), asSnapshot(4066)]) {
    rows.put(KEY, value);
    assert.deepEqual(rows.get(KEY), value);
  }
});

/** Reads of the row after each change to what is stored. */
function* changes(value: Uint8Array): Generator<() => Uint8Array | undefined> {
  const table = new Table();
  const rows = new CheckedRows(table);
  rows.put(KEY, value);
  for (const [name, stored] of [...table.rows]) {
    const places = stored.length > 500 ? [...range(0, 20), 2000, stored.length - 9, stored.length - 1] : stored.keys();
    for (const at of places) {
      for (let bit = 0; bit < 8; bit++) {
        table.rows.set(
          name,
          stored.map((byte, i) => (i === at ? byte ^ (1 << bit) : byte)),
        );
        yield () => rows.get(KEY);
      }
    }
    for (const end of [0, 3, 4, stored.length - 1]) {
      table.rows.set(name, stored.slice(0, end));
      if (end !== stored.length) yield () => rows.get(KEY);
    }
    table.rows.set(name, stored);
  }
}

test('a row with any changed bit, or cut short, is damaged', () => {
  for (const make of [asDataRow, asSnapshot]) {
    for (const length of [1, 20, 4060, 4064, 4065, 4068, PAGE_VALUE_BYTES, 4076]) {
      const value = make(length);
      let found = 0;
      for (const read of changes(value)) {
        try {
          // Bytes that fill up a page may change.
          assert.deepEqual(read(), value);
        } catch (error) {
          assert(error instanceof RowDamage, String(error));
          found++;
        }
      }
      assert(found > 40, `${found} changes of ${length} bytes were found`);
    }
  }
});

test('a row in the place of another, or without the bytes that it keeps elsewhere, is damaged', () => {
  const table = new Table();
  const rows = new CheckedRows(table);
  for (const value of [asDataRow(30), asDataRow(4068), asSnapshot(4070)]) {
    rows.put(KEY, value);
    table.putSync(OTHER, table.getBinaryFast(KEY) as Uint8Array);
    assert.throws(() => rows.get(OTHER), RowDamage);
  }
  for (const name of table.rows.keys()) if (name.startsWith('\xff')) table.rows.delete(name);
  assert.throws(() => rows.get(KEY), /row 00016400.* is damaged: a part of it is missing/);
});
