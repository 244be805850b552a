// A group snapshot of format 1 with what the older format-1 of golden.test.ts lacks: forks, tombstones, a pending
// unpin, the origin of the group's objects, a subscription, hot rows. Later versions must keep reading it. Its keys
// belong to a server that lived for a second. WRITE_GOLDEN=1 writes a new one, only for a new format; existing
// files never change.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Contents, DocumentReader, DocumentWriter } from '../../src/backup/format/document.ts';
import { BACKUP_TAGS } from '../../src/stream/backup/rows.ts';
import { TAG } from '../../src/stream/core/keys.ts';
import { until } from '../support/until.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { requestOnce } from '../support/raw-client.ts';
import { type TestServer, withServer } from '../support/server.ts';
import { type World, aboutStreams, describeWorld } from './world.ts';

const FOLDER = join(REPO_ROOT, 'test', 'backup', 'golden', 'format-1-forks');
const SNAPSHOT = join(FOLDER, 'group-0000.snapshot');
const EXPECTED = join(FOLDER, 'expected.json');
const OPTIONS = {
  cores: 1,
  groups: 1,
  toml: '[storage.cold]\nbackend = "dir"\nroot = "test"\nflush_interval = "1h"\n\n[subscriptions]\ndeliver = false\n',
  // The answers were written down when that was the default.
  http: 'cors_origins = ["*"]',
};
const TEXT = { 'content-type': 'text/plain' };
const JSON_TYPE = { 'content-type': 'application/json' };
const SUBSCRIPTION = '/v1/stream/__ds/subscriptions/jobs';
const WISH = '{"type":"pull-wake","pattern":"orders/*","wake_stream":"wake/pool"}';
/** Each a fork of the one before, of which only the last lives. */
const CHAIN = ['/orders/link-0', '/orders/link-1', '/orders/link-2'] as const;
const WORLD: World = {
  streams: [
    ...['/orders/source', '/orders/early', '/orders/late', '/orders/grandchild'],
    ...['/orders/json', '/orders/half', '/cold_only/cold', '/cold_only/fork', '/cold_only/left', CHAIN[2]],
  ],
  produced: ['/orders/source'],
};
/** The token of a removed fork that its source does not know about yet. */
const TOKEN = 4711;
const TOLD = 'orders\0source';

type Row = readonly [key: Uint8Array, value: Uint8Array];

async function call(server: TestServer, method: string, path: string, headers = {}, body = ''): Promise<number> {
  return (await requestOnce(server.port, method, path, headers, Buffer.from(body))).status;
}

function read(bytes: Uint8Array): { readonly contents: Contents; readonly rows: readonly Row[] } {
  const rows: Row[] = [];
  const reader = new DocumentReader(
    () => undefined,
    (key, value) => {
      if (BACKUP_TAGS.includes(key[0] as number)) rows.push([key.slice(), value.slice()]);
    },
  );
  reader.push(bytes);
  return { contents: reader.end(), rows };
}

const kindsOf = (rows: readonly Row[]): Set<number> => new Set(rows.map(([key]) => key[0] as number));

async function fill(server: TestServer): Promise<void> {
  const made = async (method: string, path: string, headers = {}, body = ''): Promise<void> => {
    const status = await call(server, method, path, headers, body);
    assert([200, 201, 204].includes(status), `${method} ${path}: ${status}`);
  };
  const fork = (path: string, source: string, more = {}, body = ''): Promise<void> =>
    made('PUT', path, { ...(body === '' ? {} : TEXT), 'stream-forked-from': source, ...more }, body);
  const attributes = { 'stream-attrs': '{"title":"Source"}', 'stream-ttl': '3000000000' };
  await made('PUT', '/orders/source', { ...TEXT, ...attributes }, 'one,');
  const producer = { 'producer-id': 'p', 'producer-epoch': '2' };
  for (let seq = 0; seq < 3; seq++)
    await made('POST', '/orders/source', { ...TEXT, ...producer, 'producer-seq': `${seq}` }, `${seq},`);
  await made('PUT', '/orders/source/snapshot/8', { 'content-type': 'text/x-state' }, 'state');
  await fork('/orders/early', '/orders/source', { 'stream-fork-offset': '8' });
  await fork('/orders/late', '/orders/source', { 'stream-ttl': '2000000000' });
  await made('POST', '/orders/late', TEXT, 'own');
  await fork('/orders/grandchild', '/orders/late');
  await made('PUT', '/orders/source/retention/8');
  await made('PUT', '/orders/json', JSON_TYPE, '[{"n":1},{"n":2},{"n":3}]');
  await fork('/orders/half', '/orders/json', { 'stream-fork-offset': '0', 'stream-fork-sub-offset': '2' });
  await made('PUT', CHAIN[0], TEXT, '0');
  await fork(CHAIN[1], CHAIN[0], {}, '1');
  await fork(CHAIN[2], CHAIN[1], {}, '2');
  for (const name of CHAIN.slice(0, 2)) await made('DELETE', name);
  await made('PUT', '/cold_only/cold', TEXT, 'c'.repeat(3000));
  const flushed = await requestOnce(server.adminPort, 'POST', '/__svc/flush-cold/cold_only/cold');
  assert.equal(flushed.status, 200, flushed.body.toString());
  await fork('/cold_only/fork', '/cold_only/cold');
  await fork('/cold_only/left', '/cold_only/cold', {}, 'more');
  await made('POST', '/cold_only/left', { 'stream-closed': 'true' });
  await made('PUT', SUBSCRIPTION, JSON_TYPE, WISH);
}

/** Everything, and that the names of removed streams are kept. */
async function describe(server: TestServer): Promise<unknown> {
  const gone: Record<string, unknown> = {};
  for (const name of CHAIN.slice(0, 2))
    gone[name] = [await call(server, 'HEAD', name), await call(server, 'PUT', name, TEXT)];
  const subscription = await requestOnce(server.port, 'GET', SUBSCRIPTION);
  const { id, type, pattern } = JSON.parse(subscription.body.toString()) as Record<string, unknown>;
  return JSON.parse(JSON.stringify({ ...(await describeWorld(server, WORLD)), gone, wish: [id, type, pattern] }));
}

async function write(): Promise<void> {
  await withServer(OPTIONS, async (server) => {
    await fill(server);
    const { body } = await requestOnce(server.adminPort, 'GET', '/__svc/backup/group/0');
    const { contents, rows } = read(body);
    const pieces: Uint8Array[] = [];
    const writer = new DocumentWriter(contents.head, (piece) => pieces.push(piece));
    for (const [key, value] of rows) writer.row(key, value);
    // It lasts for a moment only.
    const told = new Uint8Array(9);
    told[0] = TAG.unpin;
    new DataView(told.buffer).setBigUint64(1, BigInt(TOKEN));
    writer.row(told, Buffer.from(TOLD));
    writer.end(contents.buckets, contents.streams);
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(SNAPSHOT, Buffer.concat(pieces));
    writeFileSync(EXPECTED, `${JSON.stringify(await describe(server), null, 1)}\n`);
    cpSync(join(server.dataDir, 'cold'), join(FOLDER, 'cold'), { recursive: true });
  });
}

test('a snapshot of format 1 with forks is read, validated and restored, and its forks go on', async () => {
  if (process.env['WRITE_GOLDEN'] !== undefined) await write();
  const bytes = readFileSync(SNAPSHOT);
  const { contents, rows } = read(bytes);
  for (const tag of [TAG.fork, TAG.pin, TAG.tombstone, TAG.unpin, TAG.snapshot])
    assert(kindsOf(rows).has(tag), `${tag}`);
  assert.match(contents.head.origin ?? '', /^[0-9a-f]{16}$/);
  await withServer(OPTIONS, async (server) => {
    cpSync(join(FOLDER, 'cold'), join(server.dataDir, 'cold'), { recursive: true });
    const path = '/__svc/backup/group/0/import';
    const answer = await requestOnce(server.adminPort, 'POST', path, { 'x-svc-backup-blake3': contents.digest }, bytes);
    assert.equal(answer.status, 200, answer.body.toString());
    const seen: unknown = JSON.parse(readFileSync(EXPECTED, 'utf8'));
    assert.deepEqual(aboutStreams(await describe(server)), aboutStreams(seen));
    // Information about the cold store for backups comes from here.
    const info = await requestOnce(server.adminPort, 'GET', '/__svc/backup/info');
    const graces = { cold_gc_grace_ms: 60_000, cold_compaction_gc_grace_ms: 7 * 24 * 3_600_000 };
    const {
      cluster_id: id,
      restored_from: sources,
      ...rest
    } = JSON.parse(info.body.toString()) as Record<string, unknown>;
    assert.deepEqual(rest, { format_version: 1, raft_group_count: 1, ...graces });
    assert.match(String(id), /^[0-9a-f]{32}$/);
    assert.deepEqual(sources, []);
    await until('the source has been told', async () => {
      const { body } = await requestOnce(server.adminPort, 'GET', '/__svc/backup/group/0');
      return !kindsOf(read(body).rows).has(TAG.unpin);
    });
    assert.equal(await call(server, 'DELETE', CHAIN[2]), 204);
    for (const name of CHAIN) await until(`${name} is free`, async () => (await call(server, 'HEAD', name)) === 404);
  });
});
