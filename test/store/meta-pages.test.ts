// Meta pages of the data file that have changed: the newer one alone names all that was committed, the older one alone is
// for salvage, and without both everything is to be restored.
import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { RowDamage } from '../../src/base/row-damage.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { PageDamage } from '../../src/store/lmdb-damage.ts';
import { META_PAGE } from '../../src/store/pages.ts';
import { openStore } from '../../src/store/rebuild.ts';
import { prefixKey } from '../../src/store/rows.ts';
import type { ShardStore } from '../../src/store/shard-store.ts';
import { storeFailure } from '../../src/store/volume.ts';
import { TemporaryStore } from './temporary.ts';
import { FRESH, openLogs } from './turns.ts';

const PAGE = 4096;
const GROUPS = [1, 2, 3];
const OPENING = { runtime: PROCESS_RUNTIME, groups: GROUPS, isAlone: false, onRebuild: () => undefined };
const TRANSACTION_AT = META_PAGE.fields.transaction.end - 8;
/** The last commit. */
const NEWEST = 9;

const rowOf = (group: number): Uint8Array => Uint8Array.of(...prefixKey(group), 0x64);

function commit(store: ShardStore, value: number): void {
  store.startCheckpoint(() => {
    // One has pages of its own.
    for (const group of GROUPS) store.tx.put(rowOf(group), new Uint8Array(group === 2 ? 30_000 : 100).fill(value));
  });
  store.endCheckpoint('wait');
}

interface Written {
  readonly directory: string;
  readonly file: string;
  readonly content: Buffer;
  /** Where each of the meta pages begins. */
  readonly newer: number;
  readonly older: number;
}

async function written(t: TestContext): Promise<Written> {
  const temporary = new TemporaryStore(t);
  const { directory, store } = temporary;
  openLogs(store, FRESH);
  store.markUsed([]);
  for (let value = 1; value <= NEWEST; value++) commit(store, value);
  await store.close();
  const file = join(directory, 'data.mdb');
  const content = readFileSync(file);
  const [first, second] = [0, PAGE].map((at) => content.readBigUInt64LE(at + TRANSACTION_AT));
  assert(first !== undefined && second !== undefined);
  const [newer, older] = first > second ? [0, PAGE] : [PAGE, 0];
  return { directory, file, content, newer, older };
}

/** The first byte of each group's row; undefined: the group is not opened. */
async function found({ directory }: Written, opening = OPENING): Promise<readonly (number | undefined)[]> {
  const store = await openStore(directory, opening);
  try {
    return GROUPS.map((group) => {
      try {
        store.checkGroup(group);
        return store.tx.get(rowOf(group))?.[0];
      } catch (error) {
        assert(error instanceof RowDamage);
        return undefined;
      }
    });
  } finally {
    await store.close();
    if (store.found.rebuilt !== undefined) rmSync(join(directory, store.found.rebuilt.aside));
  }
}

function zeroed(content: Buffer, ...pages: readonly number[]): Buffer {
  const changed = Buffer.from(content);
  for (const at of pages) changed.fill(0, at, at + PAGE);
  return changed;
}

const ALL = GROUPS.map(() => NEWEST);
const NONE = GROUPS.map(() => undefined);

test('whichever bit of a meta page flips, all of the last commit is there, or no group is opened', async (t) => {
  const disk = await written(t);
  const { file, content, newer, older } = disk;
  const ends = { whole: 0, none: 0 };
  for (const page of [newer, older]) {
    // And each of its transaction: with another one the older page passes for the newer one.
    const bits = Array.from({ length: META_PAGE.size / 2 }, (_, i) => 16 * i + ((5 * i) % 16));
    bits.push(...Array.from({ length: 8 }, (_, bit) => 8 * TRANSACTION_AT + bit));
    for (const bit of bits) {
      const changed = Buffer.from(content);
      const at = page + (bit >> 3);
      changed.writeUInt8(changed.readUInt8(at) ^ (1 << (bit & 7)), at);
      writeFileSync(file, changed);
      const rows = await found(disk);
      const isWhole = rows[0] !== undefined;
      assert.deepEqual(rows, isWhole ? ALL : NONE, `byte ${at}, bit ${bit & 7}`);
      if (page === older) assert(isWhole, `byte ${at}, bit ${bit & 7}: nothing of the last commit was there`);
      ends[isWhole ? 'whole' : 'none']++;
    }
  }
  assert(ends.none > 50 && ends.whole > META_PAGE.size / 2, JSON.stringify(ends));
});

test('without its older meta page a single node starts, without the newer one it says what salvages it', async (t) => {
  const disk = await written(t);
  const { directory, file, content, newer, older } = disk;
  const alone = { ...OPENING, isAlone: true };
  writeFileSync(file, zeroed(content, older));
  assert.deepEqual(await found(disk, alone), ALL);
  for (const changed of [zeroed(content, newer), zeroed(content, newer, older), Buffer.alloc(content.length, 0x5a)]) {
    writeFileSync(file, changed);
    await assert.rejects(openStore(directory, alone), (error) => {
      assert(error instanceof PageDamage);
      const sentence = storeFailure(directory, error) ?? '';
      assert(sentence.startsWith(`${file} is damaged (`), sentence);
      return /: no other node has what they held; millracectl salvage DIR NEW-DIR goes back one checkpoint .*; otherwise restore a backup/.test(
        sentence,
      );
    });
    assert.deepEqual(readFileSync(file), changed);
    assert.deepEqual(await found(disk), NONE);
  }
  writeFileSync(file, zeroed(content, newer));
  const salvaging = { ...alone, salvages: true };
  assert.deepEqual(
    await found(disk, salvaging),
    GROUPS.map(() => NEWEST - 1),
  );
  writeFileSync(file, zeroed(content, newer, older));
  await assert.rejects(openStore(directory, salvaging), PageDamage);
});
