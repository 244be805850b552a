// Rows about whole groups, or about the store, that the disk changed: what the store makes of each.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RowDamage } from '../../src/base/row-damage.ts';
import { Environment } from '../../src/store/environment.ts';
import { LogDamage } from '../../src/store/log-record.ts';
import { CUT_ROW, OWN_TAG, OTHER_HALF, RUN_KEY, peerKey, systemKey } from '../../src/store/rows.ts';
import type { ShardStore } from '../../src/store/shard-store.ts';
import { storeFailure } from '../../src/store/volume.ts';
import { recordsIn } from './log-contents.ts';
import { SMALL_SEGMENTS, TemporaryStore } from './temporary.ts';
import { FRESH, batch, checkpoint, entry, logOf, openLogs, show, snapshotBatch, voteOf } from './turns.ts';

const [GROUP, OTHER] = [1, 2];
const RUN = { shard: 0, incarnation: 7, directory: '0123456789abcdef' };
const ENTRIES = 5;

/** A bit of each of these rows changes while nothing has the store open. */
async function rot(directory: string, keys: readonly Uint8Array[]): Promise<void> {
  const environment = new Environment(directory);
  environment.commit(() => {
    for (const key of keys) {
      const stored = Uint8Array.from(
        environment.state.getBinary(key) ?? assert.fail(`${Buffer.from(key).toString('hex')}`),
      );
      stored[0] = (stored[0] ?? 0) ^ 4;
      environment.state.putSync(key, stored);
    }
  });
  await environment.close();
}

/** Every row that a store may have of itself. */
function fill(store: ShardStore): void {
  openLogs(store, FRESH);
  store.markUsed([]);
  store.noteRun(RUN);
  store.rememberPeer(3, { ...RUN, boot: 4, settled: [] });
  store.startCheckpoint(() => {
    store.tx.put(systemKey(OWN_TAG.half, GROUP), Uint8Array.of(1));
    store.tx.put(systemKey(OWN_TAG.cut, GROUP), CUT_ROW.encode({ log: 5n, sequence: 1 }));
  });
  store.endCheckpoint('wait');
  store.append([batch(GROUP, [], { term: 3, vote: 2, commit: 0 })]);
  checkpoint(store);
  for (let i = 1; i <= ENTRIES; i++) store.append([batch(GROUP, [entry(i, 3)]), batch(OTHER, [entry(i, 1)])]);
}

/** `sole`: groups that only this node has. */
function openWithout(store: ShardStore, sole: readonly number[]): ReturnType<typeof openLogs> {
  const logs = new Map([
    [GROUP, store.abandonLog(GROUP)],
    [OTHER, store.openLog(OTHER, 0, 0)],
  ]);
  store.load(sole);
  return logs;
}

test('a changed row of a group is noticed before the group is opened, and that it is there is known', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  fill(temporary.store);
  temporary.store.setLost([GROUP], 2);
  for (const tag of [OWN_TAG.half, OWN_TAG.cut, OWN_TAG.lost]) {
    const store = await temporary.reopen(async () => await rot(temporary.directory, [systemKey(tag, GROUP)]));
    assert.throws(() => store.checkGroup(GROUP), RowDamage, String.fromCharCode(tag));
    store.checkGroup(OTHER);
    assert.equal(store.prefix(GROUP), GROUP + OTHER_HALF);
    // An operator decides, as long as nothing says that none need to.
    assert.equal(store.lost(GROUP), tag === OWN_TAG.lost ? 1 : 2);
    await temporary.reopen(async () => await rot(temporary.directory, [systemKey(tag, GROUP)]));
  }
});

test('in a cluster such a group is lost: its log is empty, also after the next start, and the others are whole', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  fill(temporary.store);
  const damaged = [OWN_TAG.half, OWN_TAG.cut, OWN_TAG.vote].map((tag) => systemKey(tag, GROUP));
  const store = await temporary.reopen(async () => await rot(temporary.directory, damaged));
  const logs = openWithout(store, []);
  assert.deepEqual([...logs.values()].map(show), ['1:', '1: 1@1 2@1 3@1 4@1 5@1']);
  assert.deepEqual([store.lost(GROUP), store.lost(OTHER)], [2, 0]);
  store.append([batch(GROUP, [entry(1, 9)])]);
  const again = openLogs(await temporary.reopen(), FRESH, 'of three');
  assert.deepEqual([...again.values()].map(show), ['1: 1@9', '1: 1@1 2@1 3@1 4@1 5@1']);
  assert.equal(temporary.store.lost(GROUP), 2);
});

test('a group whose vote is not known keeps what it has, and in a cluster it is lost', async (t) => {
  for (const node of ['single', 'of three'] as const) {
    const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
    fill(temporary.store);
    // The log has no longer the record with the vote.
    for (let i = ENTRIES + 1; i < 60; i++) temporary.store.append([batch(OTHER, [entry(i, 1, 'x'.repeat(3000))])]);
    temporary.store.compact(GROUP, ENTRIES);
    temporary.store.compact(OTHER, 58);
    checkpoint(temporary.store);
    const store = await temporary.reopen(async () => await rot(temporary.directory, [systemKey(OWN_TAG.vote, GROUP)]));
    const applied = new Map([
      [GROUP, [ENTRIES, 3]],
      [OTHER, [58, 1]],
    ] as const);
    store.checkGroup(GROUP);
    openLogs(store, applied, node);
    assert.deepEqual([store.lost(GROUP), voteOf(store, GROUP)], [node === 'single' ? 0 : 2, { term: 0, vote: 0 }]);
    // The next start knows it from the disk.
    if (node === 'of three') assert.equal((await temporary.reopen()).lost(GROUP), 2);
  }
});

test('on a single node nothing of such a group is changed, however long the others go on', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  fill(temporary.store);
  const damaged = [systemKey(OWN_TAG.cut, GROUP)];
  const store = await temporary.reopen(async () => await rot(temporary.directory, damaged));
  const logs = openWithout(store, [GROUP, OTHER]);
  assert.deepEqual([...logs.values()].map(show), ['1:', '1: 1@1 2@1 3@1 4@1 5@1']);
  assert.deepEqual([store.lost(GROUP), store.lost(OTHER)], [2, 0]);
  for (let i = ENTRIES + 1; i < 200; i++) {
    store.append([batch(OTHER, [entry(i, 1, 'x'.repeat(3000))])]);
    store.compact(OTHER, i - 1);
    checkpoint(store);
  }
  // The segments that held its entries are used again: those are elsewhere now.
  assert(store.logSegments < 40, `${store.logSegments} segments`);
  await temporary.reopen(async () => await rot(temporary.directory, damaged));
  const applied = new Map([
    [GROUP, [0, 0]],
    [OTHER, [198, 1]],
  ] as const);
  assert.equal(show(logOf(openLogs(temporary.store, applied), GROUP)), '1: 1@3 2@3 3@3 4@3 5@3');
  assert.deepEqual(voteOf(temporary.store, GROUP), { term: 3, vote: 2 });
  assert.equal(temporary.store.lost(GROUP), 0);
});

test('a node of a cluster that alone has such a group keeps its log, until the state of a leader takes over', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  fill(temporary.store);
  const damaged = [systemKey(OWN_TAG.cut, GROUP)];
  await temporary.reopen(async () => await rot(temporary.directory, damaged));
  assert.equal(show(logOf(openWithout(temporary.store, [GROUP]), GROUP)), '1:');
  assert.equal(temporary.store.lost(GROUP), 2);
  // With the row as it was written, everything is there.
  const whole = await temporary.reopen(async () => await rot(temporary.directory, damaged));
  assert.equal(show(logOf(openLogs(whole, FRESH), GROUP)), '1: 1@3 2@3 3@3 4@3 5@3');
  const store = await temporary.reopen(async () => await rot(temporary.directory, damaged));
  const log = logOf(openWithout(store, [GROUP]), GROUP);
  store.append([snapshotBatch(GROUP, 8, 4), batch(GROUP, [entry(9, 4)])]);
  assert.deepEqual([store.lost(GROUP), show(log)], [0, '9: 9@4']);
  store.checkGroup(GROUP);
  const restored = new Map([
    [GROUP, [8, 4]],
    [OTHER, [0, 0]],
  ] as const);
  assert.equal(show(logOf(openLogs(await temporary.reopen(), restored), GROUP)), '9: 9@4');
});

test('the row that names the log is as good as a damaged log', async (t) => {
  for (const node of ['single', 'of three'] as const) {
    const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
    fill(temporary.store);
    const store = await temporary.reopen(async () => await rot(temporary.directory, [systemKey(OWN_TAG.log, 0)]));
    const records = recordsIn(temporary.logFolder);
    if (node === 'single') {
      assert.throws(() => openLogs(store, FRESH), LogDamage);
      assert.throws(() => openLogs(store, FRESH), /which log belongs to the state is damaged; nothing was changed; /);
      assert.deepEqual(recordsIn(temporary.logFolder), records);
      continue;
    }
    openLogs(store, FRESH, node);
    assert.deepEqual([store.lost(GROUP), store.lost(OTHER)], [2, 2]);
    assert.equal(store.found.lost?.aside, 'log.damaged');
  }
});

test('rows about the whole store are known by their place, or refuse the start in a sentence', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  fill(temporary.store);
  const keys = [systemKey(OWN_TAG.used, 0), peerKey(3), RUN_KEY];
  const store = await temporary.reopen(async () => await rot(temporary.directory, keys));
  assert.equal(store.fresh, false);
  assert.equal(store.peerRun(3), undefined);
  store.rememberPeer(3, { ...RUN, boot: 5, settled: [] });
  assert.equal(store.peerRun(3)?.boot, 5);
  try {
    assert.fail(`${JSON.stringify(store.lastRun)} is the note of the last run`);
  } catch (error) {
    const sentence = storeFailure(temporary.directory, error);
    assert.match(
      sentence ?? '',
      /data\.mdb: its note of the last run is damaged; restore the data directory from a copy/,
    );
  }
});
