// Tables of what is under way.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Sibling, Table } from '../../src/base/table.ts';

class Entry implements Sibling<Entry> {
  readonly hash: number;
  readonly name: string;
  sibling: Entry | undefined = undefined;

  constructor(hash: number, name = '') {
    this.hash = hash;
    this.name = name;
  }
}

test('entries of one place are told apart, and leave one by one', () => {
  const table = new Table<Entry>();
  const entries = Array.from({ length: 100 }, (_, i) => new Entry((i % 3) * 1024, String(i)));
  for (const entry of entries) table.add(entry);
  const found = (): string[] =>
    table
      .all()
      .map(({ name }) => name)
      .toSorted((a, b) => Number(a) - Number(b));
  assert.deepEqual(
    found(),
    entries.map(({ name }) => name),
  );
  for (let first = table.first(1024); first !== undefined; first = first.sibling) assert.notEqual(first.name, '');
  const [kept, left] = [entries.filter((_, i) => i % 2 === 0), entries.filter((_, i) => i % 2 === 1)];
  for (const entry of left) assert.equal(table.delete(entry), true);
  for (const entry of left) assert.equal(table.delete(entry), false);
  assert.equal(table.size, kept.length);
  assert.deepEqual(
    found(),
    kept.map(({ name }) => name),
  );
  for (const entry of left) assert.equal(entry.sibling, undefined, 'it holds no other');
  assert.equal(table.delete(new Entry(0)), false);
});
