// A shard's rows in LMDB and the records of its log, one by one, and the small files beside them.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  completeDataDir,
  countStart,
  noteClusterId,
  noteSettled,
  noteSource,
  openDataDir,
} from '../../src/server/data-dir.ts';
import { prepareDirectory } from '../../src/cold/service/directory-mark.ts';
import { viewOf } from '../../src/base/bytes.ts';
import { Environment } from '../../src/store/environment.ts';
import { LmdbLog } from '../../src/store/lmdb-log.ts';
import { freshBytes } from '../../src/store/log-record.ts';
import { OWN_TAG, PEER_ROW, decodeSettled, peerKey, peerSettledKey } from '../../src/store/rows.ts';
import { ShardStore } from '../../src/store/shard-store.ts';
import { rowSize, writeRow } from '../../src/base/row-bytes.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { recordsIn } from '../store/log-contents.ts';
import { checkpoint, voteOf } from '../store/turns.ts';
import { IDENTITY } from './layout-inputs.ts';
import { Layouts, bytesFrom, utf8 } from './layouts.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';

const FIRST = 2;
const SECOND = 0x0103;
const GROUPS = [FIRST, SECOND];
const PEER = 0x0102_0304;
const RUN = { directory: 'fedcba9876543210', incarnation: 41, boot: 1_234_567_890_123 };

function folderOf(t: TestContext): string {
  const folder = temporaryFolder('layouts');
  t.after(() => removeFolder(folder));
  return folder;
}

/** The log's identity is drawn; here it is always the same. */
const STORE_OPTIONS = { runtime: { randomBytes: (size: number) => bytesFrom(0xa1, size) } } as const;
const LOG = viewOf(bytesFrom(0xa1, 8)).getBigUint64(0);
const SEGMENT_BYTES = 1024 * 1024;

async function write(directory: string): Promise<void> {
  const store = new ShardStore(directory, STORE_OPTIONS);
  for (const group of GROUPS) store.openLog(group, 0, 0);
  store.load([]);
  const batch = { hardState: undefined, snapshot: undefined, persistIndex: 2 };
  const entries = [
    { index: 1, term: 8, kind: 2, data: new Uint8Array(0) },
    { index: 2, term: 9, kind: 0, data: bytesFrom(1, 50) },
  ] as const;
  const large = [{ index: 1, term: 9, kind: 1, data: bytesFrom(7, 5000) }] as const;
  store.append([
    { ...batch, group: FIRST, entries, hardState: { term: 9, vote: 3, commit: 1 } },
    { ...batch, group: SECOND, entries: large, persistIndex: 1 },
  ]);
  store.markUsed([SECOND]);
  store.rememberPeer(PEER, { ...RUN, settled: [] });
  const row = { key: Uint8Array.from([0, 0, 0x68, 1]), value: utf8('staged') };
  const rows = new Uint8Array(rowSize(row.key, row.value));
  writeRow(rows, 0, row.key, row.value);
  store.stage(SECOND, [rows]);
  const configuration = { voters: [1], votersOutgoing: [], learners: [] };
  const snapshot = { index: 70, term: 9, configuration };
  store.append([{ ...batch, group: SECOND, entries: [], snapshot, persistIndex: 70 }]);
  checkpoint(store);
  await store.close();
}

/** Those of LMDB. */
const TABLES = { log: 'log', state: 'unchecked', rows: 'state' } as const;

const rowName = (table: string, key: Uint8Array): string => `${table} ${Buffer.from(key).toString('hex')}`;

/** Puts a row back that rowName() named. */
function putRow(environment: Environment, name: string, value: Uint8Array): void {
  const [table, key] = name.split(' ') as [keyof typeof TABLES, string];
  environment.commit(() => environment[TABLES[table]].putSync(new Uint8Array(Buffer.from(key, 'hex')), value));
}

test('the rows of a shard and the records of its log', async (t) => {
  const rows = new Layouts('store: rows, format 4');
  const records = new Layouts('store: records, format 4');
  const before = new Layouts('store: format 3');
  const folder = folderOf(t);
  await write(join(folder, 'written'));
  const environment = new Environment(join(folder, 'written'));
  const copy = new Environment(join(folder, 'copy'));
  for (const { key, value } of environment.state.getRange({})) {
    const name = rowName('rows', key);
    putRow(copy, name, rows.same(name, value));
    // Rows of format 3 are the same without the checksum, but for the one about the log.
    const old = before.earlier(rowName('state', key));
    if (key[2] !== OWN_TAG.log) assert.deepEqual(new Uint8Array(value.subarray(0, -4)), old);
  }
  rows.end();
  assert(new LmdbLog(environment.log).isEmpty);
  await environment.close();
  await copy.close();
  const segment = freshBytes(LOG, SEGMENT_BYTES);
  for (const { at, path, bytes } of recordsIn(join(folder, 'written', 'log'))) {
    const record = readFileSync(path).subarray(at, at + bytes);
    segment.set(records.same(`record at ${at}`, record), at);
  }
  records.end();
  mkdirSync(join(folder, 'copy', 'log'));
  writeFileSync(join(folder, 'copy', 'log', 'segment-1'), segment);
  assert.equal(await readBack(join(folder, 'copy')), undefined);
});

test('a shard of format 3, whose rows and records have fewer checksums, is converted once', async (t) => {
  const layouts = new Layouts('store: format 3');
  const folder = folderOf(t);
  const environment = new Environment(folder);
  const names = layouts.names.filter((name) => name.startsWith('state '));
  for (const name of names) putRow(environment, name, layouts.earlier(name));
  await environment.close();
  const segment = new Uint8Array(SEGMENT_BYTES);
  for (const name of layouts.names.filter((one) => !names.includes(one)))
    segment.set(layouts.earlier(name), Number(name.replace('record at ', '')));
  layouts.end();
  mkdirSync(join(folder, 'log'));
  writeFileSync(join(folder, 'log', 'segment-1'), segment);
  const store = new ShardStore(folder, STORE_OPTIONS);
  assert.equal(store.found.checkedRows, names.length);
  await store.close();
  assert.equal(await readBack(folder), undefined);
  const converted = new Environment(folder);
  for (const _ of converted.unchecked.getRange({})) assert.fail('rows without checksums are left');
  await converted.close();
  // The log goes on in a segment of its own.
  assert.deepEqual(readdirSync(join(folder, 'log')).sort(), ['segment-1', 'segment-2']);
  assert.equal(await readBack(folder), undefined);
});

test('a shard of format 2, whose log is in LMDB, is converted once', async (t) => {
  const layouts = new Layouts('store');
  const now = new Layouts('store: format 3');
  const folder = folderOf(t);
  const environment = new Environment(folder);
  for (const name of layouts.names) putRow(environment, name, layouts.earlier(name));
  layouts.end();
  await environment.close();
  for (const name of layouts.names.filter((one) => now.names.includes(one)))
    assert.deepEqual(now.earlier(name), layouts.earlier(name), `${name} is what it was`);
  assert.equal(await readBack(folder), 2);
  const converted = new Environment(folder);
  assert(new LmdbLog(converted.log).isEmpty);
  await converted.close();
  assert.equal(await readBack(folder), undefined);
});

/** A directory that holds what the file says. Returns how many entries were converted. */
async function readBack(directory: string): Promise<number | undefined> {
  const store = new ShardStore(directory, STORE_OPTIONS);
  const log = store.openLog(FIRST, 0, 0);
  const other = store.openLog(SECOND, 70, 9);
  store.load([]);
  const read = log.entries(1, 3, Infinity).map(({ index, term, kind, data }) => [index, term, kind, data.length]);
  assert.deepEqual(read, [
    [1, 8, 2, 0],
    [2, 9, 0, 50],
  ]);
  assert.deepEqual(log.entries(2, 3, Infinity)[0]?.data, bytesFrom(1, 50));
  assert.deepEqual([other.firstIndex(), other.lastIndex()], [71, 70]);
  assert.deepEqual(voteOf(store, FIRST), { term: 9, vote: 3 });
  assert.deepEqual(voteOf(store, SECOND), { term: 0, vote: 0 });
  assert.deepEqual([store.lost(FIRST), store.lost(SECOND), store.fresh], [0, 1, false]);
  assert.deepEqual(store.peerRun(PEER), { ...RUN, settled: [] });
  assert.deepEqual([store.prefix(FIRST), store.prefix(SECOND)], [FIRST, SECOND + 0x4000]);
  const staged = store.tx.get(Uint8Array.from([0x41, 0x03, 0x68, 1]));
  assert.equal(Buffer.from(staged ?? []).toString(), 'staged');
  const { converted } = store.found;
  await store.close();
  return converted;
}

const WANTED = { nodeId: 3, groupCount: 16, shardCount: 2, single: false };

function putShards(folder: string): void {
  for (const shard of [0, 1]) {
    mkdirSync(join(folder, `shard-${shard}`));
    writeFileSync(join(folder, `shard-${shard}`, 'data.mdb'), 'not looked at here');
  }
}

test('the losses of a peer, in a row beside that of its run, which counts only with it', async (t) => {
  const layouts = new Layouts('store: losses of a peer');
  const settled = [
    { directory: '', incarnation: 0 },
    { directory: '00ff00ff00ff00ff', incarnation: 2 ** 40 },
  ];
  const store = new ShardStore(folderOf(t), STORE_OPTIONS);
  store.rememberPeer(PEER, { ...RUN, settled });
  const row = store.tx.get(peerSettledKey(PEER));
  assert.deepEqual(decodeSettled(layouts.same('row', row ?? new Uint8Array()), RUN), { ...RUN, settled });
  assert.deepEqual(store.peerRun(PEER), { ...RUN, settled });
  layouts.end();
  // As a version that does not know the row remembers another directory.
  const other = { ...RUN, directory: '1111222233334444' };
  store.tx.put(peerKey(PEER), PEER_ROW.encode(other, utf8(other.directory)));
  assert.deepEqual(store.peerRun(PEER), { ...other, settled: [] });
  store.rememberPeer(PEER, { ...RUN, settled: [] });
  assert.equal(store.tx.get(peerSettledKey(PEER)), undefined);
  await store.close();
});

test('millrace.json', async (t) => {
  const layouts = new Layouts('store: files, format 4');
  const folder = folderOf(t);
  const file = join(folder, 'millrace.json');
  const text = (): string => readFileSync(file, 'utf8');
  const made = openDataDir(folder, WANTED);
  const drawn = (): string => text().replaceAll(made.directoryId, '0123456789abcdef');
  writeFileSync(file, layouts.sameText('made', drawn()));
  putShards(folder);
  completeDataDir(folder, { single: false, shardRun: undefined });
  layouts.sameText('complete', text());
  noteClusterId(folder, IDENTITY);
  noteSettled(folder, { later: [RUN] });
  noteSource(folder, 'f'.repeat(32));
  writeFileSync(file, layouts.sameText('with all that is noted', text()));
  assert(countStart(folder, opens(folder)));
  layouts.sameText('started again', text());
  layouts.end();
});

function opens(folder: string): ReturnType<typeof openDataDir> {
  const { single: _, ...layout } = WANTED;
  const opened = openDataDir(folder, WANTED);
  assert.deepEqual(opened as unknown, {
    ...{ format: 4, complete: true, ...layout, clusterId: IDENTITY, directoryId: '0123456789abcdef', incarnation: 2 },
    ...{ migrated: false, single: false, settled: [RUN], restoredFrom: ['f'.repeat(32)], shardRun: undefined },
  });
  return opened;
}

const formatOf = (text: string): unknown => (JSON.parse(text) as { readonly format: unknown }).format;

test('millrace.json of an earlier format becomes one of format 4, which says nothing else, before a shard is opened', (t) => {
  const folder = folderOf(t);
  const file = join(folder, 'millrace.json');
  putShards(folder);
  const sections = ['store: files', 'store: files, format 3', 'store: files, format 4'];
  for (const [i, section] of sections.entries()) {
    const layouts = new Layouts(section);
    const before = layouts.earlierText('with all that is noted');
    writeFileSync(file, before);
    opens(folder);
    assert.equal(readFileSync(file, 'utf8'), before.replace(`"format": ${i + 2}`, '"format": 4'));
    // A version before starts on a directory of its own format or of earlier ones, and on no other.
    for (const name of ['made', 'complete', 'with all that is noted', 'started again'])
      assert.equal(formatOf(layouts.earlierText(name)), i + 2);
  }
  const now = readFileSync(file, 'utf8');
  for (const other of [1, 5, 3.5, '4', null]) {
    writeFileSync(file, now.replace('"format": 4', `"format": ${JSON.stringify(other)}`));
    assert.throws(() => openDataDir(folder, WANTED), /written by another version \(format .*; this one reads 2 to 4\)/);
  }
});

test('cold-store.json', async (t) => {
  const layouts = new Layouts('store: files');
  const folder = folderOf(t);
  await prepareDirectory({
    dataDir: folder,
    directory: join(folder, 'cold'),
    root: 'root',
    timeoutMs: 10_000,
    runtime: PROCESS_RUNTIME,
  });
  layouts.sameText('cold store', readFileSync(join(folder, 'cold-store.json'), 'utf8').replaceAll(folder, '/data'));
});
