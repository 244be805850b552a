// A data file with pages that cannot be read is rebuilt without them: the groups whose rows lay there are not opened,
// and everything else is what it was.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, rmSync, statfsSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { RowDamage } from '../../src/base/row-damage.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { PageDamage } from '../../src/store/lmdb-damage.ts';
import { LogDamage } from '../../src/store/log-record.ts';
import { openStore } from '../../src/store/rebuild.ts';
import { OWN_TAG, OTHER_HALF, prefixKey, systemKey } from '../../src/store/rows.ts';
import { ShardStore } from '../../src/store/shard-store.ts';
import { storeFailure } from '../../src/store/volume.ts';
import { FailingCalls } from '../support/failing-calls.ts';
import { TemporaryStore } from './temporary.ts';
import { tearLeaf } from './torn-leaf.ts';
import { FRESH, batch, entry, openLogs, snapshotBatch } from './turns.ts';

const GROUPS = Array.from({ length: 12 }, (_, i) => i + 1);
const ROWS = 40;
/** The second half of its key space is in use. */
const OTHER_HALF_OF = 5;
const RUN = { shard: 0, incarnation: 3, directory: '0123456789abcdef' };
const OPENING = { runtime: PROCESS_RUNTIME, groups: GROUPS, isAlone: false, onRebuild: () => undefined };
const [PAGE, KIND_AT] = [4096, 18];

const prefixOf = (group: number): number => (group === OTHER_HALF_OF ? group + OTHER_HALF : group);

function fill(store: ShardStore): void {
  openLogs(store, FRESH);
  store.markUsed([]);
  store.noteRun(RUN);
  store.startCheckpoint(() => {
    store.tx.put(systemKey(OWN_TAG.half, OTHER_HALF_OF), Uint8Array.of(1));
    for (const group of GROUPS) {
      for (let i = 0; i < ROWS; i++) {
        // Some have pages of their own.
        const value = new Uint8Array(i % 10 === 0 ? 9000 : 250).fill(group + i);
        store.tx.put(Uint8Array.of(...prefixKey(prefixOf(group)), 0x64, i), value);
      }
    }
  });
  store.endCheckpoint('wait');
  store.append([batch(1, [entry(1, 1)])]);
}

function isOpened(store: ShardStore, group: number): boolean {
  try {
    store.checkGroup(group);
    return true;
  } catch (error) {
    assert(error instanceof RowDamage);
    return false;
  }
}

function rowsOf(store: ShardStore, group: number): number {
  let rows = 0;
  const prefix = prefixOf(group);
  store.tx.range(prefixKey(prefix), prefixKey(prefix + 1), false, (key, value) => {
    assert.deepEqual(value, new Uint8Array(value.length).fill(group + (key[3] ?? 0)));
    return ++rows > 0;
  });
  return rows;
}

test('whichever page cannot be read, a group has all of its rows or is not opened, and the file before is kept', async (t) => {
  const temporary = new TemporaryStore(t);
  fill(temporary.store);
  await temporary.store.close();
  const { directory } = temporary;
  const file = join(directory, 'data.mdb');
  const content = readFileSync(file);
  const pages = Array.from({ length: content.length / PAGE }, (_, page) => page).slice(2);
  const kinds = pages.filter((page) => [1, 2].includes(content.readUInt16LE(page * PAGE + KIND_AT)));
  const ends = { served: 0, torn: 0, all: 0 };
  for (const page of kinds) {
    const changed = Buffer.from(content);
    // The place of its first row, or all of it.
    if (page % 2 === 0) changed.writeUInt16LE(0xfff0, page * PAGE + 24);
    else changed.fill(0, page * PAGE, (page + 1) * PAGE);
    writeFileSync(file, changed);
    const store = await openStore(directory, OPENING);
    const { torn = [], aside } = store.found.rebuilt ?? {};
    for (const group of GROUPS) {
      assert.equal(isOpened(store, group), !torn.includes(group), `page ${page}, group ${group}`);
      if (!torn.includes(group)) assert.equal(rowsOf(store, group), ROWS, `page ${page}, group ${group}`);
    }
    assert.equal(store.fresh, false);
    const isAllTorn = torn.length === GROUPS.length;
    assert.deepEqual(store.lastRun, isAllTorn && store.lastRun === 'torn' ? 'torn' : RUN);
    store.noteRun(RUN);
    assert.deepEqual(store.lastRun, RUN);
    if (aside !== undefined) {
      assert.deepEqual(readFileSync(join(directory, aside)), changed);
      assert.equal(store.found.rebuilt?.keptBytes, changed.length);
      rmSync(join(directory, aside));
    }
    if (content.readUInt16LE(page * PAGE + KIND_AT) === 2 && !isAllTorn) assert(torn.length <= 3, torn.join());
    // Such as the table of tables.
    if (isAllTorn) ends.all++;
    else ends[torn.length > 0 ? 'torn' : 'served']++;
    await store.close();
  }
  assert(ends.torn > 20 && ends.all < 5, JSON.stringify(ends));
  assert(!readdirSync(directory).includes('rebuilt'));
  temporary.store = new ShardStore(directory, OPENING);
});

test('such a group stays closed over starts, until the state of a leader takes over', async (t) => {
  const temporary = new TemporaryStore(t);
  fill(temporary.store);
  await temporary.store.close();
  const { directory } = temporary;
  const file = join(directory, 'data.mdb');
  tearLeaf(file, 3);
  let store = await openStore(directory, OPENING);
  assert(!isOpened(store, 3));
  await store.close();
  store = await openStore(directory, OPENING);
  assert.deepEqual([store.found.rebuilt, isOpened(store, 3)], [undefined, false]);
  const others = GROUPS.filter((group) => group !== 3);
  const closed = others.filter((group) => !isOpened(store, group));
  const log = store.abandonLog(3);
  for (const group of others) if (closed.includes(group)) store.abandonLog(group);
  for (const group of others) if (!closed.includes(group)) store.openLog(group, 0, 0);
  store.load([]);
  assert.deepEqual([store.lost(3), log.lastIndex()], [2, 0]);
  store.append([snapshotBatch(3, 8, 4)]);
  store.setLost([3], 0);
  await store.close();
  temporary.store = await openStore(directory, OPENING);
  assert.deepEqual([isOpened(temporary.store, 3), temporary.store.lost(3)], [true, 0]);
});

test('a page that changes while the store is open is told as rows that changed, and the next start does without it', async (t) => {
  const temporary = new TemporaryStore(t);
  fill(temporary.store);
  const { directory } = temporary;
  const store = await temporary.reopen();
  openLogs(store, FRESH);
  const told: string[] = [];
  store.onDamage = ({ message }) => told.push(message);
  tearLeaf(join(directory, 'data.mdb'), 3);
  let damaged = 0;
  for (const group of GROUPS) {
    for (let i = 0; i < ROWS; i++) {
      const key = Uint8Array.of(...prefixKey(prefixOf(group)), 0x64, i);
      try {
        assert.equal(store.tx.get(key)?.[0], group + i);
      } catch (error) {
        assert(error instanceof RowDamage && /its page cannot be read/.test(error.message), String(error));
        damaged++;
      }
    }
  }
  assert(damaged > 0 && damaged < 2 * ROWS, `${damaged} rows`);
  assert.equal(told.length, damaged);
  await store.close();
  temporary.store = await openStore(directory, OPENING);
  assert(temporary.store.found.rebuilt?.torn.includes(3));
});

test('a copy that has no room, or fails, ends in the sentence about the damage, and the file stays', async (t) => {
  const temporary = new TemporaryStore(t);
  fill(temporary.store);
  await temporary.store.close();
  const { directory } = temporary;
  const file = join(directory, 'data.mdb');
  tearLeaf(file, 3);
  const content = readFileSync(file);
  const begun: number[] = [];
  const asides = (): string[] => readdirSync(directory).filter((name) => name.includes('.damaged'));
  const opening = { ...OPENING, onRebuild: (_: PageDamage, bytes: number) => begun.push(bytes) };
  const refusal = async (): Promise<{ readonly said: string; readonly cause: unknown }> => {
    const error: unknown = await openStore(directory, opening).catch((caught: unknown) => caught);
    assert(error instanceof PageDamage);
    truncateSync(file, content.length);
    assert.deepEqual(readFileSync(file), content);
    assert(!readdirSync(directory).includes('rebuilt'));
    return { said: storeFailure(directory, error) ?? '', cause: error.cause };
  };
  const damage = /^.*data\.mdb is damaged \(page \d+ has .*\); the next start .* restore .*; it was not rebuilt .*: /
    .source;
  const calls = await FailingCalls.in(t);
  calls.plan('renameSync', 0, 'ENOSPC');
  const full = await refusal();
  assert.match(full.said, new RegExp(`${damage}its volume is full$`));
  assert(full.cause instanceof Error && /ENOSPC: planted/.test(full.cause.message));
  calls.plan('renameSync', 0, 'EINTR');
  assert.match((await refusal()).said, new RegExp(`${damage}EINTR: planted`));
  assert.deepEqual(begun, [content.length, content.length]);
  // The link was made and the rename failed, twice.
  assert.deepEqual(asides(), ['data.mdb.damaged']);
  const { bavail, bsize } = statfsSync(directory);
  truncateSync(file, bavail * bsize + 2 ** 40);
  const { said } = await refusal();
  assert.match(said, new RegExp(`${damage}that takes \\d+ free bytes, \\d+ more than its volume has$`));
  assert.equal(begun.length, 2);
  temporary.store = await openStore(directory, opening);
  assert.deepEqual(asides(), ['data.mdb.damaged']);
  assert.deepEqual([begun.length, temporary.store.found.rebuilt?.torn.includes(3)], [3, true]);
});

test('two damaged files are kept and a third is refused, which names them', async (t) => {
  const temporary = new TemporaryStore(t);
  fill(temporary.store);
  await temporary.store.close();
  const { directory } = temporary;
  const file = join(directory, 'data.mdb');
  const kept = [`${file}.damaged`, `${file}.damaged-2`];
  for (const [i, path] of kept.entries()) {
    tearLeaf(file, 3 + i);
    await (await openStore(directory, OPENING)).close();
    assert(existsSync(path));
  }
  tearLeaf(file, 7);
  const content = readFileSync(file);
  await assert.rejects(openStore(directory, OPENING), (error) => {
    assert(error instanceof PageDamage);
    const sentence = storeFailure(directory, error) ?? '';
    assert(sentence.endsWith(`: remove the files kept before: ${kept.join(', ')}`), sentence);
    return sentence.startsWith(`${file} is damaged (`);
  });
  assert.deepEqual(readFileSync(file), content);
  rmSync(`${file}.damaged`);
  temporary.store = await openStore(directory, OPENING);
  assert.equal(temporary.store.found.rebuilt?.aside, 'data.mdb.damaged');
});

test('the only node with a group refuses a damaged log after a rebuild, and says where the file before is', async (t) => {
  const temporary = new TemporaryStore(t);
  fill(temporary.store);
  await temporary.store.close();
  const { directory, logFolder } = temporary;
  tearLeaf(join(directory, 'data.mdb'), 3);
  rmSync(logFolder, { recursive: true });
  const store = await openStore(directory, OPENING);
  temporary.store = store;
  for (const group of GROUPS) {
    if (isOpened(store, group)) store.openLog(group, 0, 0);
    else store.abandonLog(group);
  }
  assert.throws(
    () => store.load([1]),
    (error) =>
      error instanceof LogDamage &&
      /; data\.mdb was rebuilt, data\.mdb\.damaged is the file before; no other node has/.test(error.message),
  );
});
