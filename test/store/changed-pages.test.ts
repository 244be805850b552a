// Pages that change while a store has the file open: LMDB would end the process where it meets one, or give away pages
// that are in use. Each of these tests dies by a signal without the look before.
import assert from 'node:assert/strict';
import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { RowDamage } from '../../src/base/row-damage.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { DOUBTED } from '../../src/store/data-file.ts';
import { LmdbTx } from '../../src/store/environment.ts';
import { StoreReader } from '../../src/store/group-reader.ts';
import { PageDamage } from '../../src/store/lmdb-damage.ts';
import { openStore } from '../../src/store/rebuild.ts';
import { Head } from '../../src/stream/core/head.ts';
import { State } from '../../src/stream/core/state.ts';
import { refuseAbsent } from '../../src/stream/operations/append.ts';
import { STORE_OPTIONS, TemporaryStore } from './temporary.ts';
import { FRESH, openLogs } from './turns.ts';

/** As heads of streams with names of two bytes. */
const [GROUP, TAG] = [1, 0x68];
const ROWS = 600;
const keyOf = (i: number): Uint8Array => Uint8Array.of(0, GROUP, TAG, i >> 8, i & 0xff);
const valueOf = (i: number): Uint8Array => new Uint8Array(300).fill(i);

const [PAGE_BYTES, NODES_AT, BRANCH, LEAF] = [4096, 24, 1, 2];

interface Page {
  readonly page: number;
  readonly bytes: Buffer;
  readonly count: number;
}

/** A store with two levels of pages, in the order of their keys. */
class WideStore extends TemporaryStore {
  readonly file = join(this.directory, 'data.mdb');

  constructor(t: TestContext) {
    super(t);
    openLogs(this.store, FRESH);
    this.write((i) => this.store.tx.put(keyOf(i), valueOf(i)));
  }

  write(change: (i: number) => void, from = 0, to = ROWS): void {
    this.store.startCheckpoint(() => {
      for (let i = from; i < to; i++) change(i);
    });
    assert(this.store.endCheckpoint('wait'));
  }

  /** The root of the rows, and the leaves that it names. */
  pages(): { readonly root: Page; readonly leaves: readonly Page[] } {
    const content = readFileSync(this.file);
    const pageAt = (page: number): Page => {
      const bytes = content.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
      return { page, bytes, count: bytes.readUInt16LE(20) / 2 };
    };
    const all = Array.from({ length: content.length / PAGE_BYTES - 2 }, (_, i) => pageAt(i + 2));
    const roots = all.filter(({ bytes }) => bytes.readUInt16LE(18) === BRANCH);
    const root = roots.reduce((a, b) => (a.bytes.readBigUInt64LE(8) > b.bytes.readBigUInt64LE(8) ? a : b));
    const leaves = Array.from({ length: root.count }, (_, i) => pageAt(root.bytes.readUInt32LE(nodeOf(root, i))));
    assert(leaves.length > 20 && leaves.every(({ bytes }) => bytes.readUInt16LE(18) === LEAF));
    return { root, leaves };
  }

  put(at: number, bytes: Uint8Array): void {
    const fd = openSync(this.file, 'r+');
    writeSync(fd, bytes, 0, bytes.length, at);
    closeSync(fd);
  }

  /** As a node that ended does. */
  async rebuilt(): Promise<void> {
    assert(existsSync(this.file + DOUBTED), 'the next start looks at all pages');
    await this.store.close();
    const opening = { groups: [GROUP], isAlone: false, onRebuild: () => undefined };
    this.store = await openStore(this.directory, { ...STORE_OPTIONS, ...opening });
  }

  present(): number {
    let rows = 0;
    this.store.tx.range(keyOf(0), keyOf(ROWS), false, () => ++rows > 0);
    return rows;
  }
}

const nodeOf = ({ bytes }: Page, i: number): number => NODES_AT + bytes.readUInt16LE(NODES_AT + 2 * i);

/** The first row of a leaf. */
const firstRow = (leaf: Page): number => leaf.bytes.readUInt16BE(nodeOf(leaf, 0) + 8 + 3);

const FAULTS: Readonly<Record<string, (store: WideStore, at: Page, other: Page) => void>> = {
  'another page is in its place': (store, at, other) => store.put(at.page * PAGE_BYTES, other.bytes),
  'it is zeroed': (store, at) => store.put(at.page * PAGE_BYTES, new Uint8Array(PAGE_BYTES)),
  'a row begins elsewhere': (store, at) => store.put(at.page * PAGE_BYTES + NODES_AT + 2, Uint8Array.of(0xff, 0xff)),
  // A row that is written goes to the wrong place, and is there twice.
  'its rows have another order': (store, at) => store.put(at.page * PAGE_BYTES + nodeOf(at, 1) + 8, Uint8Array.of(1)),
};

for (const [what, hurt] of Object.entries(FAULTS)) {
  test(`a checkpoint writes nothing to a leaf that changed: ${what}`, async (t) => {
    const store = new WideStore(t);
    const { leaves } = store.pages();
    const [leaf, other] = [leaves[5], leaves[9]];
    assert(leaf !== undefined && other !== undefined);
    const before = readFileSync(store.file);
    hurt(store, leaf, other);
    const row = firstRow(leaf);
    const write = (): void => store.write((i) => store.store.tx.put(keyOf(i), valueOf(0)), row, row + 1);
    assert.throws(write, (error) => error instanceof PageDamage && error.message.includes(`page ${leaf.page} has `));
    const after = readFileSync(store.file);
    const changed = leaves.filter(
      ({ page }) => !after.subarray(page * PAGE_BYTES).equals(before.subarray(page * PAGE_BYTES)),
    );
    assert(
      changed.every(({ page }) => page <= leaf.page),
      'no other page was written',
    );
    await store.rebuilt();
    assert.notEqual(store.store.found.rebuilt, undefined);
  });
}

test('no stream is said to be missing, and no producer new, whose page has another in its place', (t) => {
  const store = new WideStore(t);
  const { leaves } = store.pages();
  const [leaf, other] = [leaves[5], leaves[9]];
  assert(leaf !== undefined && other !== undefined);
  FAULTS['another page is in its place']?.(store, leaf, other);
  const state = new State(GROUP, store.store.tx);
  const refusal = (row: number): number => {
    const reply = new Reply();
    const name = Uint8Array.of(row >> 8, row & 0xff);
    refuseAbsent(state, state.find(name, 0, 2), { bytes: name, keyAt: 0, keyBytes: 2 }, reply);
    return reply.code;
  };
  assert.throws(() => refusal(firstRow(leaf)), RowDamage);
  assert(existsSync(store.file + DOUBTED), 'the next start looks at all pages');
  assert.equal(refusal(ROWS), errorNumber('STREAM_NOT_FOUND'));

  const head = new Head(Uint8Array.of(1), 1);
  head.hasProducers = true;
  assert.equal(state.producer(head, 'new', Uint8Array.of(1)), undefined);
  // The rows of producers are behind those of streams: in the last leaf.
  const last = leaves.at(-1);
  assert(last !== undefined);
  FAULTS['another page is in its place']?.(store, last, other);
  assert.throws(() => state.producer(head, 'new', Uint8Array.of(1)), RowDamage);
});

test('a delete looks at the leaves that it may merge, and a walk at those that it runs into', async (t) => {
  const store = new WideStore(t);
  const { leaves } = store.pages();
  const [leaf, beside] = [leaves[5], leaves[6]];
  assert(leaf !== undefined && beside !== undefined);
  store.put(beside.page * PAGE_BYTES, new Uint8Array(PAGE_BYTES));
  const [row, next] = [firstRow(leaf), firstRow(beside)];
  const walk = (from: number, to: number, isBack: boolean): number => {
    let rows = 0;
    store.store.tx.range(keyOf(from), keyOf(to), isBack, () => ++rows > 0);
    return rows;
  };
  assert.equal(walk(row, next - 1, false), next - 1 - row);
  for (const isBack of [false, true]) assert.throws(() => walk(row, next + 1, isBack), RowDamage);
  assert.throws(() => walk(row, next, false), RowDamage, 'the cursor looks for an end');
  assert.throws(
    () => store.write((i) => store.store.tx.delete(keyOf(i)), row, row + 1),
    (error) => error instanceof PageDamage && error.message.includes(`page ${beside.page} has `),
  );
  await store.rebuilt();
  assert.deepEqual(store.store.found.rebuilt?.torn, [GROUP]);
});

test('leaves are looked at again when a scrub, a snapshot or an export goes on', async (t) => {
  const zeroed = (store: WideStore): void => {
    const leaf = store.pages().leaves[2];
    assert(leaf !== undefined);
    FAULTS['it is zeroed']?.(store, leaf, leaf);
  };
  const scrubbed = new WideStore(t);
  scrubbed.store.scrub.step(1);
  zeroed(scrubbed);
  assert.throws(() => {
    while (!scrubbed.store.scrub.step(1).isEnd);
  }, PageDamage);

  const sent = new WideStore(t);
  const reader = sent.store.openRanges([[keyOf(0), keyOf(ROWS)]]);
  assert.notEqual(reader.next(1000), undefined);
  zeroed(sent);
  assert.throws(() => {
    while (reader.next(1000) !== undefined);
  }, PageDamage);
  reader.close();

  const exported = new WideStore(t);
  const source = new StoreReader(exported.directory);
  const group = source.openGroup(GROUP);
  const rows = group.rows([TAG]);
  assert.notEqual(rows.next().done, true);
  zeroed(exported);
  group.lookAgain();
  assert.throws(() => [...rows], RowDamage);
  group.close();
  await source.close();
});

test('a key that changed costs its row alone when the file is rebuilt', async (t) => {
  const store = new WideStore(t);
  const [leaf] = store.pages().leaves.slice(5);
  assert(leaf !== undefined);
  store.put(leaf.page * PAGE_BYTES + nodeOf(leaf, 3) + 8, Uint8Array.of(0x40));
  const row = firstRow(leaf);
  assert.throws(() => store.write((i) => store.store.tx.put(keyOf(i), valueOf(0)), row, row + 1), PageDamage);
  await store.rebuilt();
  assert.deepEqual(store.store.found.rebuilt?.torn, []);
  assert.equal(store.present(), ROWS - 1);
});

test('a walk shows no row of another range: LMDB finds the wrong place in a leaf without order', () => {
  const keys = [1, 2, 3, 4].map(keyOf);
  const stored = new Map<string, Uint8Array>();
  const name = (key: Uint8Array): string => Buffer.from(key).toString('hex');
  const table = {
    getBinaryFast: (key: Uint8Array) => stored.get(name(key)),
    putSync: (key: Uint8Array, value: Uint8Array) => void stored.set(name(key), value.slice()),
    removeSync: () => undefined,
    getRange: () => walked.map((i) => ({ key: keyOf(i), value: stored.get(name(keyOf(i))) ?? assert.fail() })),
  };
  let walked: readonly number[] = [];
  const noticed: RowDamage[] = [];
  const tx = new LmdbTx(table, { noticed: (damage) => noticed.push(damage) });
  for (const key of keys) tx.put(key, valueOf(1));
  const walk = (isBack: boolean, rows: readonly number[]): void => {
    walked = rows;
    tx.range(keyOf(2), keyOf(4), isBack, () => true);
  };
  walk(false, [2, 3]);
  walk(true, [4, 3]);
  assert.deepEqual(noticed, []);
  for (const rows of [
    [1, 2, 3],
    [3, 2],
    [2, 2],
  ])
    assert.throws(() => walk(false, rows), RowDamage);
  for (const rows of [
    [3, 4],
    [4, 4],
  ])
    assert.throws(() => walk(true, rows), RowDamage);
  assert.throws(() => tx.keys(keyOf(2), keyOf(4), () => true), RowDamage);
  assert.equal(noticed.length, 6);
});

test('a free list that names more pages than it has room for ends in a sentence', async (t) => {
  const store = new WideStore(t);
  // Pages of the commit before are free.
  store.write((i) => store.store.tx.put(keyOf(i), valueOf(1)));
  const content = readFileSync(store.file);
  const meta = content.readBigUInt64LE(PAGE_BYTES + 144) > content.readBigUInt64LE(144) ? 1 : 0;
  const root = Number(content.readBigUInt64LE(meta * PAGE_BYTES + 88));
  const bytes = content.subarray(root * PAGE_BYTES, (root + 1) * PAGE_BYTES);
  const list = nodeOf({ page: root, bytes, count: 1 }, 0) + 8 + 8;
  store.put(root * PAGE_BYTES + list, Uint8Array.of(0xff, 0xff, 0xff, 0xff));
  const write = (): void => store.write((i) => store.store.tx.put(keyOf(i), valueOf(2)), 0, 1);
  assert.throws(write, /data\.mdb is damaged \(page \d+ counts more free pages than it names\)/);
  await store.rebuilt();
  assert.equal(store.present(), ROWS);
});
