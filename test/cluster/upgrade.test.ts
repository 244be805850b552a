// A rolling upgrade under load: nodes of two versions on the same data directories serve together, and one is switched
// back and forth. OLD_DIST=/elsewhere/dist uses a real older build (with node_modules next to it); otherwise the old
// version is a copy of this one under another number, which shows that nothing depends on the number, and one of the
// three nodes has this one from the beginning.
import assert from 'node:assert/strict';
import { copyFileSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { VERSION } from '../../src/config/version.ts';
import { TestCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { clusterToml, ctl, scratchFile } from '../support/ctl.ts';
import { HostAgent } from '../support/host-agent.ts';
import { requestOnce } from '../support/raw-client.ts';
import { REPO_ROOT, SERVER_ENTRY } from '../support/paths.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { GROUPS, count, underLoad } from './under-load.ts';

const OLD_VERSION = '0.0.9';
/** Nodes of the old version. */
const OLD_NODES = process.env['OLD_DIST'] === undefined ? [1, 2] : [1, 2, 3];
const PACE = ['--poll-interval-secs', '0.2'];

/** The entry of an old version. */
function oldBuild(folder: string): string {
  const given = process.env['OLD_DIST'];
  if (given !== undefined) return join(given, 'main.js');
  mkdirSync(folder, { recursive: true });
  copyFileSync(join(REPO_ROOT, 'package.json'), join(folder, 'package.json'));
  symlinkSync(join(REPO_ROOT, 'node_modules'), join(folder, 'node_modules'));
  for (const part of ['bundle', 'main.js'])
    cpSync(join(dirname(SERVER_ENTRY), part), join(folder, 'dist', part), { recursive: true });
  cpSync(join(REPO_ROOT, 'scripts/node-support.mjs'), join(folder, 'scripts/node-support.mjs'));
  const file = join(folder, 'dist/bundle/main.cjs');
  const text = readFileSync(file, 'utf8');
  const declared = (version: string): string => `const VERSION = "${version}"`;
  assert(text.includes(declared(VERSION)), file);
  writeFileSync(file, text.replace(declared(VERSION), declared(OLD_VERSION)));
  return join(folder, 'dist/main.js');
}

let conditions = 0;

async function conditional(cluster: TestCluster, id: number): Promise<string> {
  const headers = { 'Content-Type': 'text/plain', 'If-None-Match': '*' };
  const answer = await requestOnce(cluster.node(id).port, 'PUT', `/conditions/s${conditions++}`, headers);
  return `${answer.status} ${answer.headers.get('millrace-error') ?? ''}`;
}

test('two versions serve together on the way from one to the other', async () => {
  const folder = temporaryFolder('upgrade');
  const old = oldBuild(join(folder, 'old'));
  const cluster = await TestCluster.create({ process: OLD_NODES, groups: GROUPS });
  try {
    for (const id of OLD_NODES) cluster.node(id).entry = old;
    await cluster.startAll();
    const agent = await HostAgent.start(cluster);
    const file = scratchFile('cluster.toml', clusterToml(cluster));
    const restart = async (entry: string, ...flags: string[]): Promise<void> => {
      agent.onRestart = (id) => (cluster.node(id).entry = entry);
      const run = await ctl(['restart', '--config', file, '--restart-cmd', agent.command, ...PACE, ...flags]);
      assert.equal(run.code, 0, run.stderr);
    };
    const versionOf = async (id: number): Promise<unknown> => (await cluster.metrics(id))['version'];
    const versions = (): Promise<unknown[]> => Promise.all(cluster.ids.map(versionOf));
    const before = await versions();
    assert.equal(before.lastIndexOf(before[0]), OLD_NODES.length - 1);
    await underLoad('rolling upgrade', cluster, 83, async (_, faults) => {
      await restart(SERVER_ENTRY, '--only', '1');
      count(faults, 'node 1 up');
      assert.deepEqual(await versions(), [VERSION, ...before.slice(1)]);
      // Nodes of the first release would stop at these.
      const made = await conditional(cluster, 1);
      if (process.env['OLD_DIST'] !== undefined) assert.equal(made, '503 UPGRADE_UNFINISHED');
      // Whichever node leads: the new node sends the groups of old leaders, and vice versa.
      const location = join(folder, 'backup');
      const created = await ctl(['backup-create', '--config', file, '--location', location]);
      assert.equal(created.code, 0, created.stderr);
      assert.equal((await ctl(['backup-verify', '--location', location])).code, 0);
      await restart(old, '--only', '1');
      count(faults, 'node 1 back');
      assert.deepEqual(await versions(), before);
      await restart(SERVER_ENTRY, '--only', OLD_NODES.join());
      count(faults, 'all up');
      assert.deepEqual(await versions(), [VERSION, VERSION, VERSION]);
      await until('conditions are known everywhere', async () => (await conditional(cluster, 2)).startsWith('201'));
    });
    agent.close();
  } catch (error) {
    process.stderr.write(cluster.logs());
    throw error;
  } finally {
    await cluster.dispose();
    removeFolder(folder);
  }
});
