// A single node whose log is damaged: the tool makes a directory that starts with what can be read, and says what is gone.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs, {
  cpSync,
  lstatSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { salvage } from '../../src/server/salvage.ts';
import { META_PAGE } from '../../src/store/pages.ts';
import { ctl } from '../support/ctl.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { tried } from '../support/tries.ts';
import { rot } from './rot-record.ts';

const TEXT = { 'content-type': 'text/plain' };
const STREAMS = 12;
const PARTS = ['first;', 'second;', 'third;'];

async function contentOf({ client }: TestServer, stream: number): Promise<string> {
  const { status, body } = await client.request('GET', `/salvage/s${stream}?offset=0`);
  return status === 404 ? '' : body.toString();
}

test('a damaged log of a single node is salvaged into another directory, which says what it lacks', async (t) => {
  // A checkpoint between the writes and the kill has what the record said.
  await tried(() => salvaged(t));
});

async function salvaged(t: TestContext): Promise<void> {
  const server = new TestServer({ process: true, cores: 1, groups: 4 });
  const folder = temporaryFolder('salvage');
  t.after(async () => {
    await server.dispose();
    removeFolder(folder);
  });
  await server.start();
  for (let i = 0; i < STREAMS; i++) await server.client.request('PUT', `/salvage/s${i}`, TEXT);
  for (const part of PARTS) for (let i = 0; i < STREAMS; i++) await server.client.append(`/salvage/s${i}`, TEXT, part);
  await server.kill();
  const { sequence, items } = await rot(server, 0, 'late');
  const [before, to] = [join(folder, 'before'), join(folder, 'to')];
  cpSync(server.dataDir, before, { recursive: true });
  const said = await ctl(['salvage', server.dataDir, to]);
  assert.equal(said.code, 0, said.stderr);
  assert.match(said.stdout, new RegExp(`^shard-0: the log is damaged: record ${sequence} is not readable`));
  assert.match(said.stdout, new RegExp(`^shard-0: left out: records ${sequence} to ${sequence}, which`, 'm'));
  const [lost] = items;
  assert(lost !== undefined);
  const told = `^shard-0: left out: group ${lost.group}: entries ${lost.index} to ${lost.index} cannot be read, and ${lost.index + 1} to`;
  assert.match(said.stdout, new RegExp(told, 'm'));
  assert.match(said.stdout, new RegExp(`left out: group ${lost.group}: commands for salvage/s`));
  assert.deepEqual(readdirSync(server.dataDir), readdirSync(before));
  const other = new TestServer({ cores: 1, groups: 4, dataDir: to });
  t.after(() => other.dispose());
  await other.start();
  const whole = PARTS.join('');
  const found = await Promise.all(Array.from({ length: STREAMS }, (_, i) => contentOf(other, i)));
  assert(
    found.every((content) => whole.startsWith(content)),
    'a stream ends early, and nowhere else',
  );
  const named = found.flatMap((content, i) => (content === whole ? [] : [`salvage/s${i}`]));
  assert(named.length > 0 && named.length < STREAMS, `${named.length} streams lack something`);
  await other.client.append(`/salvage/s${found.indexOf(whole)}`, TEXT, 'later;');
  await other.dispose();
  const again = await ctl(['salvage', server.dataDir, to]);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /is not empty/);
}

/** Paths that are synced from now on. */
function syncedPaths(t: TestContext): ReadonlySet<string> {
  const synced = new Set<string>();
  const { fsyncSync } = fs;
  t.mock.method(fs, 'fsyncSync', (descriptor: number) => {
    synced.add(readlinkSync(`/proc/self/fd/${descriptor}`));
    fsyncSync(descriptor);
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  return synced;
}

test('a single node without the newer meta page of data.mdb is salvaged from the checkpoint before and its log', async (t) => {
  const server = new TestServer({ process: true, cores: 1, groups: 4 });
  const folder = temporaryFolder('salvage');
  t.after(async () => {
    await server.dispose();
    removeFolder(folder);
  });
  await server.start();
  for (let i = 0; i < STREAMS; i++) {
    await server.client.request('PUT', `/salvage/s${i}`, TEXT);
    await server.client.append(`/salvage/s${i}`, TEXT, 'all;');
  }
  await server.stop();
  const file = join(server.dataDir, 'shard-0', 'data.mdb');
  const content = readFileSync(file);
  const [transactionAt, page] = [META_PAGE.fields.transaction.end - 8, 4096];
  const isFirst = content.readBigUInt64LE(transactionAt) > content.readBigUInt64LE(page + transactionAt);
  const at = isFirst ? 0 : page;
  writeFileSync(file, Buffer.from(content).fill(0, at, at + page));
  await assert.rejects(server.start(), /no other node has what they held; millracectl salvage DIR/);
  const identity = join(server.dataDir, 'millrace.json');
  const told = readFileSync(identity, 'utf8');
  const to = join(folder, 'to');
  // Whether it had peers once is no matter: its groups say who votes, and these had no other voter named yet.
  writeFileSync(identity, told.replace(/"single": ?true/, '"single":false'));
  const refused = await ctl(['salvage', server.dataDir, to]);
  assert.match(refused.stderr, /shard-0: other nodes may vote in its groups: start it, and they restore it/);
  assert.deepEqual([refused.code, readdirSync(to)], [1, []]);
  writeFileSync(identity, told);
  const synced = syncedPaths(t);
  const said: string[] = [];
  await salvage(server.dataDir, to, (line) => said.push(line));
  assert.match(
    said.join('\n'),
    /^shard-0: its state is that of the last checkpoint whose meta page is whole: .*data\.mdb is.*\nshard-0: the log is whole$/,
  );
  const copied = readdirSync(to, { recursive: true, encoding: 'utf8' });
  const left = ['', ...copied].filter((name) => !synced.has(join(to, name)));
  assert.deepEqual(left, [], 'a loss of power takes nothing of it');
  const other = new TestServer({ cores: 1, groups: 4, dataDir: to });
  t.after(() => other.dispose());
  await other.start();
  for (let i = 0; i < STREAMS; i++) assert.equal(await contentOf(other, i), 'all;');
});

test('folders that are links to other disks are copied, and only the copy is changed; a copy that fails is removed', async (t) => {
  const server = new TestServer({ cores: 1, groups: 2 });
  const folder = temporaryFolder('salvage');
  t.after(async () => {
    await server.dispose();
    removeFolder(folder);
  });
  await server.start();
  await server.client.request('PUT', '/salvage/s0', TEXT);
  await server.client.append('/salvage/s0', TEXT, 'all;');
  await server.stop();
  const [link, disk, to] = [join(folder, 'link'), join(folder, 'disk'), join(folder, 'to')];
  const shard = join(server.dataDir, 'shard-0');
  renameSync(shard, disk);
  symlinkSync(disk, shard);
  symlinkSync(server.dataDir, link);
  // Nothing copies a pipe.
  const pipe = join(disk, 'log', 'pipe');
  execFileSync('mkfifo', [pipe]);
  await assert.rejects(
    salvage(link, to, () => undefined),
    /FIFO pipe/,
  );
  assert.deepEqual(readdirSync(to), []);
  rmSync(pipe);
  const said: string[] = [];
  await salvage(link, to, (line) => said.push(line));
  assert.deepEqual(said, ['shard-0: the log is whole']);
  assert(lstatSync(join(to, 'shard-0')).isDirectory(), 'the copy leads to the original');
  const other = new TestServer({ cores: 1, groups: 2, dataDir: to });
  t.after(() => other.dispose());
  await other.start();
  assert.equal(await contentOf(other, 0), 'all;');
});
