// Writes the data directories and the backup of test/upgrade/version-*: `node scripts/bootstrap.mjs run test/upgrade/make.js`, with
// the version whose formats they are to show. For a new version only: what is there stays as it is.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type World, repeatProducers } from '../backup/world.ts';
import { TestCluster } from '../support/cluster.ts';
import { clusterToml, ctl, scratchFile } from '../support/ctl.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { CLUSTER, GOLDEN, SINGLE, addCold, describe, fill, pack, writeGolden } from './contents.ts';

async function remember(name: string, server: TestServer, world: World): Promise<void> {
  const seen = await describe(server, world);
  writeGolden(name, { world, seen, producers: await repeatProducers(server, world) });
}

async function single(): Promise<void> {
  const server = new TestServer(SINGLE);
  await server.start();
  await remember('single', server, await addCold(server, await fill(server)));
  assert.equal(await server.stop(), 0);
  pack(server.dataDir, 'single');
  await server.dispose();
}

/** Killed in the middle, so that its logs are to be replayed. */
async function cluster(): Promise<void> {
  const nodes = await TestCluster.create(CLUSTER);
  await nodes.startAll();
  await remember('cluster', nodes.node(1), await fill(nodes.node(2)));
  const folder = temporaryFolder('golden');
  const location = join(folder, 'backup');
  const file = scratchFile('cluster.toml', clusterToml(nodes));
  const created = await ctl(['backup-create', '--config', file, '--location', location]);
  assert.equal(created.code, 0, created.stderr);
  pack(location, 'backup');
  await nodes.settled();
  await Promise.all(nodes.ids.map((id) => nodes.kill(id)));
  for (const id of nodes.ids) pack(nodes.node(id).dataDir, `node-${id}`);
  await nodes.dispose();
  removeFolder(folder);
}

assert(!existsSync(GOLDEN), `${GOLDEN} is there, and stays as it is`);
mkdirSync(GOLDEN);
await single();
await cluster();
