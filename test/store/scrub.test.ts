// All rows of the state are read, a few at a time, and those that changed are told.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toHex } from '../../src/base/hex.ts';
import type { Environment } from '../../src/store/environment.ts';
import { RowScrub } from '../../src/store/scrub.ts';
import { flipWord } from './flip-word.ts';
import { TemporaryStore } from './temporary.ts';
import { FRESH, openLogs } from './turns.ts';

const [GROUP, TAG] = [1, 0x64];
const ROWS = 20;
const keyOf = (i: number): Uint8Array => Uint8Array.of(0, GROUP, TAG, i);

/** Every fifth value fills a page, so that its checksum takes the place of bytes that have a row of their own. */
const valueOf = (i: number): Uint8Array => {
  const value = new Uint8Array(i % 5 === 0 ? 4072 : 100).fill(7);
  value.set(Buffer.from(`PRECIOUS ${i}.`), value.length - 20);
  return value;
};

test('a pass comes by every row once, in steps, and names the ones that changed', async (t) => {
  const temporary = new TemporaryStore(t);
  openLogs(temporary.store, FRESH);
  temporary.store.startCheckpoint(() => {
    for (let i = 0; i < ROWS; i++) temporary.store.tx.put(keyOf(i), valueOf(i));
  });
  assert(temporary.store.endCheckpoint('wait'));
  const changed = [5, 12];
  const store = await temporary.reopen(() => changed.forEach((i) => flipWord(temporary.directory, `PRECIOUS ${i}.`)));
  openLogs(store, FRESH);
  const met: string[] = [];
  store.onDamage = ({ key }) => met.push(toHex(key));
  for (let pass = 1; pass <= 2; pass++) {
    let [steps, bytes] = [0, 0];
    for (let isEnd = false; !isEnd; steps++) {
      const step = store.scrub.step(4096);
      bytes += step.bytes;
      isEnd = step.isEnd;
    }
    assert(steps > 3 && bytes > ROWS * 512, `${bytes} bytes in ${steps} steps`);
    assert.deepEqual(
      met.splice(0),
      changed.map((i) => toHex(keyOf(i))),
    );
  }
});

test('a read that fails leaves no transaction behind in which every other one fails, and the next pass starts at the first row', () => {
  let [failures, refreshed] = [1, 0];
  const rows = [keyOf(1), keyOf(2)].map((key) => ({ key, value: new Uint8Array(4) }));
  const state = {
    *getRange() {
      yield* rows;
      if (failures-- > 0) throw new Error('MDB_CORRUPTED');
    },
  };
  const environment = { state, refresh: () => void refreshed++ } as unknown as Environment;
  const scrub = new RowScrub(environment, () => undefined);
  assert.throws(() => scrub.step(1e6), /MDB_CORRUPTED/);
  assert.equal(refreshed, 1);
  assert.deepEqual(scrub.step(1e6), { bytes: 1024, isEnd: true });
});
