// Data directories and backups as earlier versions wrote them: this version opens them and serves every byte. make.ts
// wrote them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Ports, type World, repeatProducers } from '../backup/world.ts';
import { type ClusterOptions, TestCluster } from '../support/cluster.ts';
import { clusterFileOf, ctl } from '../support/ctl.ts';
import { requestOnce } from '../support/raw-client.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { Archive } from './archive.ts';
import { CLUSTER, RESTORED, SINGLE, clusterWithCold, describe } from './contents.ts';
import { appendWhere, describeAll } from './more-contents.ts';

const TEXT = { 'content-type': 'text/plain' };

interface Version {
  readonly archive: Archive;
  readonly describe: (ports: Ports, world: World) => Promise<Record<string, unknown>>;
  /** Data directories of single nodes, and those of them whose node is killed in `npm test` too. */
  readonly singles: readonly string[];
  readonly killed: readonly string[];
  readonly cluster: (cold: string) => ClusterOptions;
  /** The nodes of the cluster share a cold store, which the backup needs too. */
  readonly hasSharedCold: boolean;
  /** Not in files of their own. */
  readonly hasLmdbLogs: boolean;
}

const VERSIONS: Readonly<Record<string, Version>> = {
  '0.1.0': {
    archive: new Archive('version-0.1.0'),
    describe,
    singles: ['single'],
    killed: [],
    cluster: () => CLUSTER,
    hasSharedCold: false,
    hasLmdbLogs: true,
  },
  // The last one before the code was laid out by rooms.
  '4b63d0f': {
    archive: new Archive('commit-4b63d0f'),
    describe: describeAll,
    singles: ['single', 'restored'],
    killed: ['single'],
    cluster: clusterWithCold,
    hasSharedCold: true,
    hasLmdbLogs: true,
  },
  // The last one of format 3: rows and log records without checksums of their own.
  b20001b: {
    archive: new Archive('commit-b20001b'),
    describe: describeAll,
    singles: ['single'],
    killed: [],
    cluster: clusterWithCold,
    hasSharedCold: true,
    hasLmdbLogs: false,
  },
};

/** But for the sentences. */
const answersOf = (answers: readonly unknown[]): unknown[] =>
  answers.map((answer) => (answer as readonly unknown[]).slice(0, 3));

/** Writes of this version follow those of the version before. */
async function append({ port }: TestServer, path: string): Promise<void> {
  const before = (await requestOnce(port, 'GET', `${path}?offset=0`)).body.toString();
  assert.equal((await requestOnce(port, 'POST', path, TEXT, Buffer.from('later'))).status, 204);
  assert.equal((await requestOnce(port, 'GET', `${path}?offset=0`)).body.toString(), `${before}later`);
}

/** Where there is one: earlier versions kept no tag. */
async function appendToSeen(server: TestServer, { etag }: Record<string, unknown>): Promise<void> {
  if (typeof etag === 'string') await appendWhere(server, etag);
}

/** Shards whose log was moved, as the log of the process says. */
const movedLogs = (server: TestServer): number => server.log().match(/the log was moved out of LMDB/g)?.length ?? 0;

const formatOf = (server: TestServer): unknown =>
  (JSON.parse(readFileSync(join(server.dataDir, 'millrace.json'), 'utf8')) as { readonly format: unknown }).format;

async function openSingle(version: Version, name: string): Promise<void> {
  const { world, seen, producers } = version.archive.read(name);
  const isKilled = IS_THOROUGH || version.killed.includes(name);
  const server = new TestServer({ ...SINGLE, process: isKilled });
  version.archive.unpack(name, server.dataDir);
  try {
    await server.start();
    assert.deepEqual(await version.describe(server, world), seen);
    assert.deepEqual(answersOf(await repeatProducers(server, world)), answersOf(producers));
    for (const path of ['/orders/source', '/orders/fork', '/cold_only/cold']) await append(server, path);
    await appendToSeen(server, seen);
    const after = await version.describe(server, world);
    const moved = movedLogs(server);
    assert.equal(formatOf(server), 4);
    // Whatever this version made of it, it finds it again: also what its log alone has.
    for (const end of IS_THOROUGH ? (['stop', 'kill'] as const) : ([isKilled ? 'kill' : 'end'] as const)) {
      await server[end]();
      await server.start();
      assert.deepEqual(await version.describe(server, world), after);
    }
    assert.equal(movedLogs(server), moved, 'a log is moved once');
  } catch (error) {
    process.stderr.write(server.log());
    throw error;
  } finally {
    await server.dispose();
  }
}

async function openCluster(version: Version): Promise<void> {
  const { world, seen, producers } = version.archive.read('cluster');
  const cold = temporaryFolder('golden');
  if (version.hasSharedCold) version.archive.unpack('cold', cold);
  const cluster = await TestCluster.create(version.cluster(cold));
  try {
    for (const id of cluster.ids) version.archive.unpack(`node-${id}`, cluster.node(id).dataDir);
    await cluster.startAll();
    await cluster.settled();
    for (const id of cluster.ids) assert.deepEqual(await version.describe(cluster.node(id), world), seen, `node ${id}`);
    assert.deepEqual(answersOf(await repeatProducers(cluster.node(2), world)), answersOf(producers));
    for (const id of cluster.ids) {
      // Writes that another node acknowledged are shown here when they are applied here.
      await cluster.settled();
      await append(cluster.node(id), '/orders/fork');
    }
    await appendToSeen(cluster.node(1), seen);
    await cluster.settled();
    const after = await version.describe(cluster.node(1), world);
    const moved = cluster.ids.map((id) => movedLogs(cluster.node(id)));
    const isMoved = !moved.includes(0);
    assert.equal(
      isMoved,
      version.hasLmdbLogs,
      'nodes that were killed have logs in LMDB, and say that they were moved',
    );
    await Promise.all(cluster.ids.map((id) => cluster.end(id)));
    await cluster.startAll();
    await cluster.settled();
    for (const id of cluster.ids)
      assert.deepEqual(await version.describe(cluster.node(id), world), after, `node ${id}`);
    assert.deepEqual(
      cluster.ids.map((id) => movedLogs(cluster.node(id))),
      moved,
      'a log is moved once',
    );
  } catch (error) {
    process.stderr.write(cluster.logs());
    throw error;
  } finally {
    await cluster.dispose();
    removeFolder(cold);
  }
}

async function restoreBackup(version: Version): Promise<void> {
  const { world, seen } = version.archive.read('cluster');
  const location = temporaryFolder('golden');
  version.archive.unpack('backup', location);
  assert.equal((await ctl(['backup-verify', '--location', location])).code, 0);
  const server = new TestServer(RESTORED);
  if (version.hasSharedCold) version.archive.unpack('cold', join(server.dataDir, 'cold'));
  try {
    await server.start();
    const restored = await ctl(['restore', '--config', clusterFileOf(server), '--location', location]);
    assert.equal(restored.code, 0, restored.stderr);
    assert.deepEqual(await version.describe(server, world), seen);
    await appendToSeen(server, seen);
  } catch (error) {
    process.stderr.write(server.log());
    throw error;
  } finally {
    await server.dispose();
    removeFolder(location);
  }
}

for (const [name, version] of Object.entries(VERSIONS)) {
  for (const single of version.singles)
    test(`the data directory "${single}" of version ${name}`, () => openSingle(version, single));
  test(`the data directories of a cluster of version ${name}`, () => openCluster(version));
  test(`a backup of version ${name} is verified and restored`, () => restoreBackup(version));
}
