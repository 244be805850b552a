// One shard's folder that is not what the rest of the data directory was last used with ends the start, before
// anything is changed. A start that is killed at any call that reaches the disk is followed by one that succeeds.
import assert from 'node:assert/strict';
import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { withCluster } from '../support/cluster.ts';
import { clusterToml, ctl, scratchFile } from '../support/ctl.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { hasStrace } from './strace.ts';
import { mountSmallDisk } from './small-disk.ts';

const TEXT = { 'content-type': 'text/plain' };
const SHARDS = 3;
/** The one in the middle is like the last one. */
const ENDS = [0, 2];
/** Enough for a start that one of them has noted and the other has not. */
const FEW_SHARDS = 2;
const GROUPS = 6;
const STREAMS = 12;
const EXIT_CONFIG = 2;

interface Stored {
  readonly directoryId: string;
  readonly incarnation: number;
  readonly shardRun: number;
}

function stored({ dataDir }: TestServer): Stored {
  return JSON.parse(readFileSync(join(dataDir, 'millrace.json'), 'utf8')) as Stored;
}

function copyOf(path: string, name: string): string {
  const copy = join(temporaryFolder('copy'), name);
  cpSync(path, copy, { recursive: true });
  return copy;
}

function putBack(copy: string, path: string): void {
  rmSync(path, { recursive: true });
  cpSync(copy, path, { recursive: true });
}

/** To streams of every group. */
async function writeAll({ client }: TestServer, body: string): Promise<void> {
  for (let i = 0; i < STREAMS; i++) {
    const path = `/older/s${i}`;
    await client.request('PUT', path, TEXT);
    await client.append(path, TEXT, body);
  }
}

async function checkAll({ client }: TestServer, content: string): Promise<void> {
  for (let i = 0; i < STREAMS; i++)
    assert.equal((await client.expect(200, 'GET', `/older/s${i}?offset=0`)).body.toString(), content);
}

/** The sentence with which the start ends. */
async function refusalOf(server: TestServer): Promise<string> {
  const before = readFileSync(join(server.dataDir, 'millrace.json'), 'utf8');
  await assert.rejects(server.start(), /ended with 2 before it was ready/);
  assert.equal(await server.exited, EXIT_CONFIG);
  assert.equal(readFileSync(join(server.dataDir, 'millrace.json'), 'utf8'), before);
  return server.log().trimEnd().split('\n').at(-1) ?? '';
}

test('each folder from before, exchanged folders and those of another directory end the start of a single node', async (t) => {
  const options = { cores: SHARDS, groups: GROUPS };
  const [server, other] = [new TestServer(options), new TestServer(options)];
  t.after(() => Promise.all([server.dispose(), other.dispose()]));
  for (const each of [server, other]) {
    await each.start();
    await writeAll(each, 'first;');
    assert.equal(await each.stop(), 0);
  }
  const { dataDir } = server;
  const folder = (shard: number): string => join(dataDir, `shard-${shard}`);
  const before = copyOf(dataDir, 'before');
  const early = stored(server);
  await server.start();
  await writeAll(server, 'second;');
  assert.equal(await server.stop(), 0);
  const newest = copyOf(dataDir, 'newest');
  const { directoryId, incarnation, shardRun } = stored(server);
  assert.deepEqual([incarnation, shardRun], [early.incarnation + 1, early.incarnation + 1]);

  for (const shard of ENDS) {
    putBack(join(before, `shard-${shard}`), folder(shard));
    const why = await refusalOf(server);
    assert.match(
      why,
      new RegExp(`shard-${shard} was last used in start 1, .* every shard noted start 2, so shard-${shard} is`),
    );
    assert.match(why, /restore a backup into an empty one$/);
    putBack(join(newest, `shard-${shard}`), folder(shard));
  }
  for (const shard of ENDS) {
    putBack(join(other.dataDir, `shard-${shard}`), folder(shard));
    const theirs = stored(other).directoryId;
    assert.match(
      await refusalOf(server),
      new RegExp(`shard-${shard} is of directory ${theirs}, .* of directory ${directoryId}`),
    );
    putBack(join(newest, `shard-${shard}`), folder(shard));
  }
  renameSync(folder(0), `${folder(0)}-away`);
  renameSync(folder(2), folder(0));
  renameSync(`${folder(0)}-away`, folder(2));
  assert.match(await refusalOf(server), /shard-0 holds shard 2 of this directory; put back the shard-0 that belongs/);
  for (const shard of ENDS) putBack(join(newest, `shard-${shard}`), folder(shard));
  putBack(join(before, 'millrace.json'), join(dataDir, 'millrace.json'));
  // However often it is tried: a start that is refused is not counted.
  for (let i = 0; i < 2; i++)
    assert.match(
      await refusalOf(server),
      /shard-0 was last used in start 2, but millrace\.json has counted 1, so millrace/,
    );
  // The documents say to do this when only that file is older.
  writeFileSync(join(dataDir, 'millrace.json'), JSON.stringify({ ...stored(server), incarnation, shardRun }));
  await server.start();
  await checkAll(server, 'first;second;');
  assert.equal(await server.stop(), 0);
  // All of it from before is a directory like any other.
  putBack(before, dataDir);
  await server.start();
  await checkAll(server, 'first;');
});

test('a node of three with one folder from before does not start; emptied, it comes back as after the loss of its disk', async () => {
  await withCluster({ groups: 2 }, async (cluster) => {
    const file = scratchFile('c.toml', clusterToml(cluster));
    await writeAll(cluster.node(1), 'first;');
    await cluster.settled();
    const node = cluster.node(2);
    const folder = join(node.dataDir, 'shard-0');
    await cluster.end(2);
    const before = copyOf(folder, 'before');
    await cluster.restart(2);
    await cluster.ready();
    await writeAll(cluster.node(1), 'second;');
    await cluster.settled();
    await cluster.end(2);
    putBack(before, folder);
    assert.match(
      await refusalOf(node),
      /shard-0 was last used in start 1, .* noted start 2, .* an empty one and run allow-rejoin$/,
    );
    cluster.wipe(2);
    await cluster.restart(2);
    await node.logged(/not the one that a peer knows under this node id/);
    const armed = await ctl(['allow-rejoin', '--config', file, '--node', '2']);
    assert.equal(armed.stdout, 'node 2: empty-log rejoin armed on every group leader\n', armed.stderr);
    await cluster.ready();
    await checkAll(node, 'first;second;');
  });
});

/**
 * Calls that reach the disk, and how many of each a thread makes at least: millrace.json is written twice (a sync, a
 * rename, a sync of its folder), each shard commits its note, syncs the end of its log and writes to it.
 */
const CALLS = { fsync: 4, pwrite64: 2, fdatasync: 2, rename: 2 } as const;
/** A thread makes fewer of them while it starts. */
const CALLS_MAX = 60;
/**
 * A death leaves what was written: nothing but a new millrace.json; that; the note of one shard, perhaps; those of all.
 * At the other calls it leaves one of these, or what each start leaves.
 */
const FEW_CALLS: readonly (readonly [call: keyof typeof CALLS, n: number])[] = [
  ['fsync', 1],
  ['fsync', 2],
  ['pwrite64', 2],
  ['fsync', 3],
];

test('a start that is killed at any call that reaches the disk is no reason to refuse the next one', async (t) => {
  if (!(await hasStrace(t))) return;
  const folder = temporaryFolder('killed');
  const wrapper: string[] = [];
  const options = { cores: FEW_SHARDS, groups: GROUPS, dataDir: join(folder, 'data') };
  const [server, whole] = [new TestServer({ ...options, process: true, wrapper }), new TestServer(options)];
  t.after(async () => {
    await Promise.all([server.dispose(), whole.dispose()]);
    removeFolder(folder);
  });
  await whole.start();
  await writeAll(whole, 'here;');
  await whole.end();
  /** False: it was killed before its n-th call of that name. */
  const startsUntil = async (call: string, n: number): Promise<boolean> => {
    const kill = ['-e', `trace=${call}`, '-e', `inject=${call}:signal=SIGKILL:when=${n}`];
    wrapper.splice(0, wrapper.length, 'strace', '-D', '-f', '-qq', '-o', join(folder, 'trace'), ...kill);
    try {
      await server.start();
      return true;
    } catch {
      assert.equal(await server.exited, 'SIGKILL', server.log());
      return false;
    } finally {
      await server.kill();
    }
  };
  for (const [call, n] of IS_THOROUGH ? [] : FEW_CALLS)
    assert(!(await startsUntil(call, n)), `a start makes fewer than ${n} calls of ${call}`);
  for (const [call, least] of IS_THOROUGH ? Object.entries(CALLS) : []) {
    let n = 1;
    for (; !(await startsUntil(call, n)); n++)
      assert(n < CALLS_MAX, `a start makes more than ${CALLS_MAX} calls of ${call}`);
    assert(n > least, `a start makes only ${n - 1} calls of ${call}`);
  }
  await whole.start();
  await checkAll(whole, 'here;');
  const { incarnation, shardRun } = stored(whole);
  assert.equal(shardRun, incarnation);
});

const DISK_BYTES = 32 * 1024 * 1024;
const PAGE_BYTES = 4096;

test('a start on a full disk serves what is there, and the next one is not refused', async (t) => {
  const { disk, reason } = await mountSmallDisk(DISK_BYTES);
  if (disk === undefined) return t.skip(reason);
  const options = { cores: FEW_SHARDS, groups: GROUPS };
  const server = new TestServer({ ...options, process: true, dataDir: disk.path, wrapper: disk.enter });
  const roomy = new TestServer({ ...options, dataDir: join(disk.outside, 'data') });
  t.after(async () => {
    await Promise.all([server.dispose(), roomy.dispose()]);
    await disk.dispose();
  });
  await roomy.start();
  await writeAll(roomy, 'here;');
  assert.equal(await roomy.stop(), 0);
  const noted = (): number => {
    const file = readFileSync(join(disk.outside, 'data', 'millrace.json'), 'utf8');
    return (JSON.parse(file) as Stored).shardRun;
  };
  for (const spare of IS_THOROUGH ? [0, 1, 2, 3, 4] : [0, 2]) {
    // Room for nothing, or for a part of what a start notes.
    disk.fill('filler', disk.freeBytes() - spare * PAGE_BYTES);
    await server.start('health');
    await checkAll(server, 'here;');
    if (spare === 0) await server.logged(/this start could not be noted/);
    await server.kill();
    disk.remove('filler');
    if (spare === 0) {
      assert.equal(noted(), 1);
    }
  }
  await roomy.start();
  await checkAll(roomy, 'here;');
  await writeAll(roomy, 'later;');
  assert.equal(await roomy.stop(), 0);
  assert(noted() > 1);
});
