// All rows of the state are read, a few at a time, and those that changed are told.
import assert from 'node:assert/strict';
import fs, { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmdirSync, statSync, writeSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { RowDamage } from '../../src/base/row-damage.ts';
import { toHex } from '../../src/base/hex.ts';
import { rowSize } from '../../src/base/row-bytes.ts';
import { DOUBTED, checkTrees } from '../../src/store/data-file.ts';
import { StoreReader } from '../../src/store/group-reader.ts';
import { PageDamage } from '../../src/store/lmdb-damage.ts';
import { openStore } from '../../src/store/rebuild.ts';
import { flipWord } from './flip-word.ts';
import { STORE_OPTIONS, TemporaryStore } from './temporary.ts';
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

test('a leaf whose rows LMDB cannot find ends in a sentence, before LMDB reads it, and at the next start too', async (t) => {
  const temporary = new TemporaryStore(t);
  openLogs(temporary.store, FRESH);
  temporary.store.startCheckpoint(() => {
    for (let i = 0; i < 200; i++) temporary.store.tx.put(Uint8Array.of(0, GROUP, TAG, i), new Uint8Array(300));
  });
  assert(temporary.store.endCheckpoint('wait'));
  const file = join(temporary.directory, 'data.mdb');
  const pages = [...leavesOf(readFileSync(file))];
  assert(pages.length > 10, `${pages.length} leaves`);
  const page = pages[5] as number;
  const fd = openSync(file, 'r+');
  t.after(() => closeSync(fd));
  // The place of its second row.
  writeSync(fd, Uint8Array.of(0xff), 0, 1, page * PAGE_BYTES + PAGE_HEAD_BYTES + 3);
  const why = new RegExp(
    `data\\.mdb is damaged \\(page ${page} has a node outside of it\\); the next start rebuilds it`,
  );
  const pass = (): void => {
    while (!temporary.store.scrub.step(4096).isEnd);
  };
  // The mark cannot be written over a folder.
  mkdirSync(file + DOUBTED);
  assert.throws(pass, why);
  rmdirSync(file + DOUBTED);
  assert.throws(pass, why);
  assert.throws(() => checkTrees(file), why);
  // The next start looks at all leaves, however many there are.
  assert.equal(statSync(file + DOUBTED).mode & 0o777, 0o600);
  await temporary.store.close();
  temporary.store = await openStore(temporary.directory, {
    ...STORE_OPTIONS,
    groups: [GROUP],
    isAlone: true,
    onRebuild: () => undefined,
  });
  assert.deepEqual(temporary.store.found.rebuilt?.torn, [GROUP]);
  assert(!existsSync(file + DOUBTED));
});

/** With 200 rows in more than ten leaves, one of which is zeroed while the store has the file open. */
function withZeroedLeaf(t: TestContext): TemporaryStore {
  const temporary = new TemporaryStore(t);
  openLogs(temporary.store, FRESH);
  temporary.store.startCheckpoint(() => {
    for (let i = 0; i < 200; i++) temporary.store.tx.put(Uint8Array.of(0, GROUP, TAG, i), new Uint8Array(300));
  });
  assert(temporary.store.endCheckpoint('wait'));
  const file = join(temporary.directory, 'data.mdb');
  const page = [...leavesOf(readFileSync(file))][5] ?? assert.fail('there are leaves');
  zero(file, page);
  return temporary;
}

function zero(file: string, page: number): void {
  const fd = openSync(file, 'r+');
  writeSync(fd, new Uint8Array(PAGE_BYTES), 0, PAGE_BYTES, page * PAGE_BYTES);
  closeSync(fd);
}

test('a pass over leaves alone meets one that changed, also while no row is read', (t) => {
  const { store } = withZeroedLeaf(t);
  assert.throws(() => {
    for (let steps = 0; steps < 50; steps++) store.scrub.step(0);
  }, /data\.mdb is damaged \(page \d+ has the head of another page\)/);
});

test('walks for snapshots and exports end in front of a leaf that changed, and the process lives', async (t) => {
  const { store, directory } = withZeroedLeaf(t);
  const sent = store.openSnapshot(GROUP);
  assert.throws(() => {
    while (sent.next(5000) !== undefined);
  }, PageDamage);
  sent.close();
  assert(existsSync(join(directory, 'data.mdb') + DOUBTED), 'the next start looks at all leaves');
  const reader = new StoreReader(directory);
  const group = reader.openGroup(GROUP);
  assert.throws(() => [...group.rows([TAG])], RowDamage);
  group.close();
  await reader.close();
});

test('a snapshot and an export look at the leaves of their own tree, which a later commit replaced', async (t) => {
  const temporary = new TemporaryStore(t);
  openLogs(temporary.store, FRESH);
  const rewrite = (byte: number): void => {
    temporary.store.startCheckpoint(() => {
      for (let i = 0; i < 200; i++) temporary.store.tx.put(keyOf(i), new Uint8Array(300).fill(byte));
    });
    assert(temporary.store.endCheckpoint('wait'));
  };
  rewrite(0);
  const file = join(temporary.directory, 'data.mdb');
  const leaves = [...leavesOf(readFileSync(file))];
  const reader = new StoreReader(temporary.directory);
  const sent = temporary.store.openSnapshot(GROUP);
  const exported = reader.openGroup(GROUP);
  rewrite(1);
  zero(file, leaves[5] ?? assert.fail('there are leaves'));
  assert.throws(() => {
    while (sent.next(5000) !== undefined);
  }, PageDamage);
  sent.close();
  assert.throws(() => [...exported.rows([TAG])], RowDamage);
  exported.close();
  await reader.close();
});

test('a process that may open no more files looks at leaves all the same', (t) => {
  const temporary = new TemporaryStore(t);
  openLogs(temporary.store, FRESH);
  temporary.store.startCheckpoint(() => temporary.store.tx.put(keyOf(0), new Uint8Array(300)));
  assert(temporary.store.endCheckpoint('wait'));
  const { mock } = t.mock.method(fs, 'openSync', () => {
    throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
  });
  syncBuiltinESMExports();
  t.after(() => {
    mock.restore();
    syncBuiltinESMExports();
  });
  temporary.store.scrub.step(1000);
  const sent = temporary.store.openSnapshot(GROUP);
  assert.equal(sent.next(5000)?.length, rowSize(keyOf(0), new Uint8Array(300)));
  sent.close();
});

test('a doubted file is read with all bytes of its long rows: LMDB cannot read past a bad sector in one', async (t) => {
  const temporary = new TemporaryStore(t);
  openLogs(temporary.store, FRESH);
  const value = new Uint8Array(20_000).fill(7);
  value.set(Buffer.from('MIDDLE'), 12_000);
  temporary.store.startCheckpoint(() => temporary.store.tx.put(keyOf(0), value));
  assert(temporary.store.endCheckpoint('wait'));
  const file = join(temporary.directory, 'data.mdb');
  const at = readFileSync(file).indexOf('MIDDLE');
  const read = t.mock.method(fs, 'readSync');
  syncBuiltinESMExports();
  t.after(() => syncBuiltinESMExports());
  const isRead = (): boolean =>
    read.mock.calls.some(({ arguments: given }: { readonly arguments: readonly unknown[] }) => {
      const [bytes, from] = given.slice(3).map(Number) as [number, number];
      return from <= at && at < from + bytes;
    });
  checkTrees(file);
  assert(!isRead(), 'not at every start');
  checkTrees(file, 'all');
  assert(isRead());
  read.mock.resetCalls();
  temporary.store.scrub.step(1);
  assert(isRead(), 'before LMDB reads it');
});

const [PAGE_BYTES, PAGE_HEAD_BYTES, LEAF] = [4096, 24, 2];

/** Pages with many rows of the table. */
function* leavesOf(content: Buffer): Iterable<number> {
  for (let page = 2; page < content.length / PAGE_BYTES; page++) {
    const at = page * PAGE_BYTES;
    if (content.readUInt16LE(at + 18) === LEAF && content.readUInt16LE(at + 20) > 10) yield page;
  }
}
