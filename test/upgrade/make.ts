// Writes data directories and a backup of this version, in a folder of test/upgrade that is named after its commit:
// node scripts/bootstrap.mjs build && node scripts/bootstrap.mjs run test/upgrade/make.js For a state of the formats
//   that is worth keeping only: what is there stays as it is. Then name the folder in golden.test.ts. version-0.1.0 was
//   written by this file as it was at commit 829bb3a.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type World, repeatProducers } from '../backup/world.ts';
import { TestCluster } from '../support/cluster.ts';
import { clusterFileOf, clusterToml, ctl, scratchFile } from '../support/ctl.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { Archive } from './archive.ts';
import { RESTORED, SINGLE, clusterWithCold } from './contents.ts';
import { describeAll, fillAll } from './more-contents.ts';

const git = (...args: string[]): string => execFileSync('git', args, { cwd: REPO_ROOT, encoding: 'utf8' }).trim();
/** The last commit below src: a commit that changes tests alone writes the same. */
const COMMIT = git('log', '-1', '--format=%h', '--abbrev=7', '--', 'src');
assert.equal(git('status', '--porcelain', '--', 'src'), '', 'src is as it was committed');
const archive = new Archive(`commit-${COMMIT}`);

async function remember(name: string, server: TestServer, world: World): Promise<void> {
  const seen = await describeAll(server, world);
  archive.write(name, { world, seen, producers: await repeatProducers(server, world) });
}

async function single(): Promise<void> {
  const server = new TestServer({ ...SINGLE, process: true });
  await server.start();
  await remember('single', server, await fillAll([server]));
  assert.equal(await server.stop(), 0);
  archive.pack(server.dataDir, 'single');
  await server.dispose();
}

/** Killed in the middle, so that its logs are to be replayed. What came out of its backup is a directory too. */
async function cluster(): Promise<void> {
  const folder = temporaryFolder('golden');
  const [location, cold] = [join(folder, 'backup'), join(folder, 'cold')];
  const nodes = await TestCluster.create({ ...clusterWithCold(cold), process: true });
  await nodes.startAll();
  const world = await fillAll([nodes.node(2), nodes.node(1), nodes.node(3)]);
  await nodes.settled();
  await remember('cluster', nodes.node(1), world);
  const file = scratchFile('cluster.toml', clusterToml(nodes));
  const created = await ctl(['backup-create', '--config', file, '--location', location]);
  assert.equal(created.code, 0, created.stderr);
  archive.pack(location, 'backup');
  await nodes.settled();
  await Promise.all(nodes.ids.map((id) => nodes.kill(id)));
  for (const id of nodes.ids) archive.pack(nodes.node(id).dataDir, `node-${id}`);
  archive.pack(cold, 'cold');
  await nodes.dispose();
  await restored(location, cold, world);
  removeFolder(folder);
}

async function restored(location: string, cold: string, world: World): Promise<void> {
  const server = new TestServer(RESTORED);
  cpSync(cold, join(server.dataDir, 'cold'), { recursive: true });
  await server.start();
  const result = await ctl(['restore', '--config', clusterFileOf(server), '--location', location]);
  assert.equal(result.code, 0, result.stderr);
  await remember('restored', server, world);
  assert.equal(await server.stop(), 0);
  archive.pack(server.dataDir, 'restored');
  await server.dispose();
}

assert(!existsSync(archive.folder), `${archive.folder} is there, and stays as it is`);
mkdirSync(archive.folder);
writeFileSync(join(archive.folder, 'made.json'), `${JSON.stringify({ commit: COMMIT, node: process.version })}\n`);
await single();
await cluster();
