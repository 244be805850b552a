// A backup, byte for byte: the document of a group, the manifest, and the commands that bring it into an empty group.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ExportBook } from '../../src/backup/export/export-book.ts';
import { DocumentReader } from '../../src/backup/format/document.ts';
import type { Location } from '../../src/backup/format/location.ts';
import { parseManifest, writeManifest } from '../../src/backup/format/manifest.ts';
import { fromHex } from '../../src/base/hex.ts';
import { GroupExport, type GroupRows } from '../../src/backup/export/group-export.ts';
import { encodeForkBegin, encodeForkPin } from '../../src/protocol/fork-command.ts';
import { encodeImportEnd, encodeImportRows, encodeImportToken } from '../../src/protocol/import-command.ts';
import { areRows, eachRow, rowSize, writeRow } from '../../src/base/row-bytes.ts';
import { createRandom } from '../support/random.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { ColdRun } from '../stream/cold/run.ts';
import type { SortedMapTx } from '../stream/sorted-map-tx.ts';
import { IDENTITY } from './layout-inputs.ts';
import { Layouts, utf8 } from './layouts.ts';
import { Teller } from './state-teller.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

const GROUP = 0x0102;
const TOKEN = '0123456789abcdef';

type Row = readonly [key: Uint8Array, value: Uint8Array];

/** Streams of some kinds, with cold bytes, a fork, and one to be told of a fork that is gone. */
function group(): Teller {
  // state-layouts.test.ts compares its words; here only what comes of it.
  const teller = new Teller(GROUP, { same: (_name, bytes) => bytes.slice() });
  const text = { stream: 'text', contentType: 'text/plain' };
  const create = COMMANDS.create.number;
  teller.say('', { kind: create, stream: 'cold', contentType: 'application/json', payload: utf8('[{"n":1},2,3]') });
  const cold = new ColdRun(createRandom(1));
  const flush = cold.upload(teller.state, { hotBeforeMs: Infinity, maxBytes: Infinity });
  assert(flush !== undefined);
  teller.hear('', cold.entry(flush, teller.nowMs));
  const producer = { producerId: 'p', producerEpoch: 1, producerSeq: 0 };
  const attributes = utf8('{"title":"T"}');
  teller.say('', { kind: create, ...text, ...producer, attributes, ttlSeconds: 3e9, payload: utf8('hot bytes') });
  const fork = { stream: 'fork', forkToken: 5 };
  const source = 'orders\0text';
  teller.say('', { kind: COMMANDS.forkBegin.number, ...fork, payload: encodeForkBegin(source, -1, 0) });
  teller.say('', {
    kind: COMMANDS.forkPin.number,
    stream: 'text',
    forkToken: 5,
    payload: encodeForkPin('orders\0fork', -1),
  });
  teller.rows('');
  return teller;
}

function rowsOf(tx: SortedMapTx): GroupRows {
  const all: { readonly key: Uint8Array; readonly value: Uint8Array }[] = [];
  tx.range(new Uint8Array([0]), new Uint8Array([0xff, 0xff]), false, (key, value) => {
    return all.push({ key: key.slice(), value: value.slice() }) > 0;
  });
  const of = (tag: number): typeof all => all.filter(({ key }) => key[2] === tag);
  const nothing = (): void => undefined;
  return { row: (tag) => of(tag)[0]?.value, rows: (tags) => tags.flatMap(of), lookAgain: nothing, close: nothing };
}

function read(
  document: Uint8Array,
): { readonly digest: string; readonly rows: readonly Row[] } & Record<string, unknown> {
  const rows: Row[] = [];
  const reader = new DocumentReader(
    () => undefined,
    (key, value) => rows.push([key.slice(), value.slice()]),
  );
  reader.push(document);
  return { ...reader.end(), rows };
}

test('the document of a group, and the import of it', () => {
  const layouts = new Layouts('backup: document');
  const order = { group: GROUP, groupCount: 0x0200, commitIndex: 0, origin: '' };
  const pieces = new GroupExport(rowsOf(group().tx), order).begin().pieces;
  const document = layouts.same('document', Buffer.concat(pieces));
  const { rows, ...contents } = read(document);
  layouts.sameText('contents', JSON.stringify(contents));
  layouts.sameText(
    'rows and their indexes',
    JSON.stringify(rows.map((row) => row.map((part) => Buffer.from(part).toString('hex')))),
  );

  const teller = new Teller(GROUP, layouts);
  const run = { bucket: '' };
  const token = encodeImportToken(TOKEN);
  teller.say('begin', { ...run, kind: COMMANDS.importBegin.number, payload: token });
  const half = Math.ceil(rows.length / 2);
  for (const [seq, part] of [rows.slice(0, half), rows.slice(half)].entries()) {
    const payload = encodeImportRows({ token: TOKEN, seq, rows: layouts.same(`rows ${seq}`, packed(part)) });
    teller.say(`import of rows ${seq}`, { ...run, kind: COMMANDS.importRows.number, payload });
  }
  teller.rows('while it comes in');
  const end = {
    ...{ token: TOKEN, pieces: 2, rows: rows.length, nextIncarnation: 9, hotBytes: 9, coldBytes: 12, objects: 1 },
    ...{ objectBytes: 500, digest: fromHex(contents.digest, 32) as Uint8Array, origin: 'fedcba9876543210' },
  };
  layouts.same('end that adopts nothing', encodeImportEnd({ ...end, origin: '0'.repeat(16) }));
  teller.say('end', { ...run, kind: COMMANDS.importEnd.number, payload: encodeImportEnd(end) });
  teller.rows('when it is done');
  teller.say('begin again', {
    ...run,
    kind: COMMANDS.importBegin.number,
    payload: encodeImportToken('ffff000011112222'),
  });

  const other = new Teller(GROUP, layouts);
  other.say('another begin', { ...run, kind: COMMANDS.importBegin.number, payload: token });
  other.say('abort', { ...run, kind: COMMANDS.importAbort.number, payload: token });
  other.rows('when it was given up');
  layouts.end();
});

/** As rows travel in imports and in snapshots of groups. */
function packed(rows: readonly Row[]): Uint8Array {
  const whole = rows.map(([key, value]): Row => [Uint8Array.from([0, 0, ...key]), value]);
  const bytes = new Uint8Array(whole.reduce((sum, [key, value]) => sum + rowSize(key, value), 0));
  whole.reduce((at, [key, value]) => at + writeRow(bytes, at, key, value), 0);
  assert(areRows(bytes));
  const under = [...eachRow(bytes, GROUP)].map(({ key, value }): Row => [key, value.slice()]);
  assert.deepEqual(
    under,
    rows.map(([key, value]): Row => [Uint8Array.from([1, 2, ...key]), value]),
  );
  return bytes;
}

test('the manifest', async () => {
  const layouts = new Layouts('backup: manifest');
  let text = '';
  const location: Location = {
    text: 'here',
    claim: () => Promise.resolve(true),
    release: () => Promise.resolve(true),
    sizeOf: () => Promise.resolve(undefined),
    read: () => assert.fail('nothing is read'),
    endUnfinished: () => Promise.resolve(0),
    close: () => undefined,
    write: async (name, pieces) => {
      text = `${name}\n`;
      for await (const piece of pieces) text += Buffer.from(piece).toString();
    },
  };
  const groups = [0, 1].map((id) => ({
    ...{ raft_group_id: id, object: `group-000${id}.snapshot`, bytes: 1000 + id, blake3: 'ab'.repeat(32) },
    ...{ group_commit_index: 2 ** 40 + id, buckets: 3, streams: 4 },
  }));
  const lineage = { cluster_id: IDENTITY, restored_from: ['f'.repeat(32)] };
  await writeManifest(location, 1_700_000_000_000, groups, lineage);
  const written = layouts.sameText('manifest', text);
  assert(written.startsWith('manifest.json\n'));
  const { cold_store_note: _, ...manifest } = parseManifest(written.slice('manifest.json\n'.length));
  assert.deepEqual(manifest, {
    ...{ format_version: 1, created_unix_ms: 1_700_000_000_000, raft_group_count: 2 },
    ...{ groups, ...lineage },
  });
  layouts.end();
});

test('exports.json', async (t) => {
  const layouts = new Layouts('backup: exports');
  const folder = temporaryFolder('layouts');
  t.after(() => removeFolder(folder));
  const told = {
    exports_running: [{ raft_group_id: 1, since_unix_ms: 1_700_000_000_000 }],
    exports_finished: [{ raft_group_id: 0, finished_unix_ms: 1_700_000_000_001 }],
    exports_ended_early: [
      { raft_group_id: 2, code: 'volume-short' as const, reason: 'no room', ended_unix_ms: 1_700_000_000_002 },
    ],
  };
  const book = new ExportBook(folder);
  book.write(told);
  await book.settled();
  layouts.sameText('of all kinds', readFileSync(join(folder, 'exports.json'), 'utf8'));
  assert.deepEqual(new ExportBook(folder).read(), told);
  layouts.end();
});
