// A shard's store says in which run of which data directory it was last used.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RUN_KEY, decodeRun, encodeRun } from '../../src/store/rows.ts';
import { TemporaryStore } from './temporary.ts';

const RUN = { shard: 3, incarnation: 2 ** 40 + 5, directory: '0123456789abcdef' };

test('the row is what it always was', () => {
  assert.equal(Buffer.from(RUN_KEY).toString('hex'), 'ffff720000');
  const row = encodeRun(RUN);
  assert.equal(Buffer.from(row).toString('hex'), '030000000050000000007042100030313233343536373839616263646566');
  assert.deepEqual(decodeRun(row, 'shard-0'), RUN);
  for (let size = 0; size < row.length; size++)
    assert.throws(
      () => decodeRun(row.slice(0, size), 'shard-0'),
      /^Error: shard-0: its note of the last run is damaged/,
    );
  assert.throws(
    () => decodeRun(Uint8Array.from([...row, 0]), 'shard-0'),
    /^Error: shard-0: its note of the last run is damaged/,
  );
});

test('a store knows its last run after it was opened again, and a damaged note is no run', async (t) => {
  const files = new TemporaryStore(t);
  assert.equal(files.store.lastRun, undefined);
  files.store.noteRun(RUN);
  const store = await files.reopen();
  store.load([]);
  assert.deepEqual(store.lastRun, RUN);
  // It says nothing about what else is there.
  assert.equal(store.fresh, true);
  store.startCheckpoint(() => store.tx.put(RUN_KEY, Uint8Array.of(1, 2, 3)));
  store.endCheckpoint('wait');
  assert.throws(() => store.lastRun, /its note of the last run is damaged; restore the data directory from a copy/);
});
