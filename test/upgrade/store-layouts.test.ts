// The two tables of a shard's LMDB environment, row by row, and the small files beside them.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  completeDataDir,
  countStart,
  noteClusterId,
  noteLoss,
  noteSource,
  openDataDir,
} from '../../src/server/data-dir.ts';
import { prepareDirectory } from '../../src/cold/service/directory-mark.ts';
import { Environment } from '../../src/store/environment.ts';
import { ShardStore } from '../../src/store/shard-store.ts';
import { rowSize, writeRow } from '../../src/base/row-bytes.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { IDENTITY } from './layout-inputs.ts';
import { Layouts, bytesFrom, utf8 } from './layouts.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';

const GROUPS = [2, 0x0103];
const PEER = 0x0102_0304;
const RUN = { directory: 'fedcba9876543210', incarnation: 41, boot: 1_234_567_890_123 };

function folderOf(t: TestContext): string {
  const folder = temporaryFolder('layouts');
  t.after(() => removeFolder(folder));
  return folder;
}

async function write(directory: string): Promise<void> {
  const store = new ShardStore(directory);
  for (const group of GROUPS) store.openLog(group, 0, 0);
  store.load();
  const [first, second] = GROUPS as [number, number];
  const batch = { hardState: undefined, snapshot: undefined, persistIndex: 2, persistTerm: 9 };
  const entries = [
    { index: 1, term: 8, kind: 2, data: new Uint8Array(0) },
    { index: 2, term: 9, kind: 0, data: bytesFrom(1, 50) },
  ] as const;
  const large = [{ index: 1, term: 9, kind: 1, data: bytesFrom(7, 5000) }] as const;
  store.commit(
    [
      { ...batch, group: first, entries, hardState: { term: 9, vote: 3, commit: 1 } },
      { ...batch, group: second, entries: large, persistIndex: 1 },
    ],
    undefined,
  );
  store.markUsed([second]);
  store.rememberPeer(PEER, RUN);
  const row = { key: Uint8Array.from([0, 0, 0x68, 1]), value: utf8('staged') };
  const rows = new Uint8Array(rowSize(row.key, row.value));
  writeRow(rows, 0, row.key, row.value);
  store.stage(second, [rows]);
  const configuration = { voters: [1], votersOutgoing: [], learners: [] };
  const snapshot = { index: 70, term: 9, configuration };
  store.commit([{ ...batch, group: second, entries: [], snapshot, persistIndex: 70 }], undefined);
  await store.close();
}

test('the tables of a shard', async (t) => {
  const layouts = new Layouts('store');
  const folder = folderOf(t);
  await write(join(folder, 'written'));
  const environment = new Environment(join(folder, 'written'));
  const copy = new Environment(join(folder, 'copy'));
  for (const table of ['log', 'state'] as const) {
    for (const { key, value } of environment[table].getRange({})) {
      const known = layouts.same(`${table} ${Buffer.from(key).toString('hex')}`, value);
      const name = new Uint8Array(key);
      copy.commit(() => {
        copy[table].putSync(name, known);
      });
    }
  }
  await environment.close();
  await copy.close();
  layouts.end();
  await readBack(join(folder, 'copy'));
});

/** A directory that holds what the file says. */
async function readBack(directory: string): Promise<void> {
  const store = new ShardStore(directory);
  const [first, second] = GROUPS as [number, number];
  const log = store.openLog(first, 0, 0);
  const other = store.openLog(second, 70, 9);
  store.load();
  const read = log.entries(1, 3, Infinity).map(({ index, term, kind, data }) => [index, term, kind, data.length]);
  assert.deepEqual(read, [
    [1, 8, 2, 0],
    [2, 9, 0, 50],
  ]);
  assert.deepEqual([other.firstIndex(), other.lastIndex()], [71, 70]);
  assert.deepEqual(store.vote(first), { term: 9, vote: 3 });
  assert.deepEqual(store.vote(second), { term: 0, vote: 0 });
  assert.deepEqual([store.lost(first), store.lost(second), store.fresh], [false, true, false]);
  assert.deepEqual(store.peerRun(PEER), RUN);
  assert.deepEqual([store.prefix(first), store.prefix(second)], [first, second + 0x4000]);
  const staged = store.tx.get(Uint8Array.from([0x41, 0x03, 0x68, 1]));
  assert.equal(Buffer.from(staged ?? []).toString(), 'staged');
  await store.close();
}

test('millrace.json and cold-store.json', async (t) => {
  const layouts = new Layouts('store: files');
  const folder = folderOf(t);
  const file = join(folder, 'millrace.json');
  const text = (): string => readFileSync(file, 'utf8');
  const wanted = { nodeId: 3, groupCount: 16, shardCount: 2, single: false };
  const made = openDataDir(folder, wanted);
  const drawn = (): string => text().replaceAll(made.directoryId, '0123456789abcdef');
  writeFileSync(file, layouts.sameText('made', drawn()));
  for (const shard of [0, 1]) {
    mkdirSync(join(folder, `shard-${shard}`));
    writeFileSync(join(folder, `shard-${shard}`, 'data.mdb'), 'not looked at here');
  }
  completeDataDir(folder, { single: false, shardRun: undefined });
  layouts.sameText('complete', text());
  noteClusterId(folder, IDENTITY);
  noteLoss(folder, RUN);
  noteSource(folder, 'f'.repeat(32));
  writeFileSync(file, layouts.sameText('with all that is noted', text()));
  const { single: _, ...layout } = wanted;
  const opened = openDataDir(folder, wanted);
  assert.deepEqual(opened as unknown, {
    ...{ format: 2, complete: true, ...layout, clusterId: IDENTITY, directoryId: '0123456789abcdef', incarnation: 2 },
    ...{ migrated: false, single: false, settled: [RUN], restoredFrom: ['f'.repeat(32)], shardRun: undefined },
  });
  assert(countStart(folder, opened));
  layouts.sameText('started again', text());
  await prepareDirectory({
    dataDir: folder,
    directory: join(folder, 'cold'),
    root: 'root',
    timeoutMs: 10_000,
    runtime: PROCESS_RUNTIME,
  });
  layouts.sameText('cold store', readFileSync(join(folder, 'cold-store.json'), 'utf8').replaceAll(folder, '/data'));
  layouts.end();
});
