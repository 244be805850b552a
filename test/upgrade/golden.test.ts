// Data directories and a backup as the version before wrote them: this version opens them and serves every byte. make.ts wrote them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { repeatProducers } from '../backup/world.ts';
import { TestCluster } from '../support/cluster.ts';
import { ctl, scratchFile } from '../support/ctl.ts';
import { requestOnce } from '../support/raw-client.ts';
import { TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { CLUSTER, GROUPS, SINGLE, describe, readGolden, unpack } from './contents.ts';

const TEXT = { 'content-type': 'text/plain' };

/** But for the sentences. */
const answersOf = (answers: readonly unknown[]): unknown[] =>
  answers.map((answer) => (answer as readonly unknown[]).slice(0, 3));

/** What was written by the version before is followed by what this one writes. */
async function append({ port }: TestServer, path: string): Promise<void> {
  const before = (await requestOnce(port, 'GET', `${path}?offset=0`)).body.toString();
  assert.equal((await requestOnce(port, 'POST', path, TEXT, Buffer.from('later'))).status, 204);
  assert.equal((await requestOnce(port, 'GET', `${path}?offset=0`)).body.toString(), `${before}later`);
}

test('the data directory of a single node of the version before', async () => {
  const { world, seen, producers } = readGolden('single');
  const server = new TestServer(SINGLE);
  unpack('single', server.dataDir);
  try {
    await server.start();
    assert.deepEqual(await describe(server, world), seen);
    assert.deepEqual(answersOf(await repeatProducers(server, world)), answersOf(producers));
    for (const path of ['/orders/source', '/orders/fork', '/cold_only/cold']) await append(server, path);
    const after = await describe(server, world);
    // Whatever this version made of it, it finds it again.
    for (const end of ['stop', 'kill'] as const) {
      await server[end]();
      await server.start();
      assert.deepEqual(await describe(server, world), after);
    }
  } catch (error) {
    process.stderr.write(server.log());
    throw error;
  } finally {
    await server.dispose();
  }
});

test('the data directories of a cluster of the version before', async () => {
  const { world, seen, producers } = readGolden('cluster');
  const cluster = await TestCluster.create(CLUSTER);
  try {
    for (const id of cluster.ids) unpack(`node-${id}`, cluster.node(id).dataDir);
    await cluster.startAll();
    await cluster.settled();
    for (const id of cluster.ids) assert.deepEqual(await describe(cluster.node(id), world), seen, `node ${id}`);
    assert.deepEqual(answersOf(await repeatProducers(cluster.node(2), world)), answersOf(producers));
    for (const id of cluster.ids) await append(cluster.node(id), '/orders/fork');
    await cluster.settled();
    const after = await describe(cluster.node(1), world);
    await Promise.all(cluster.ids.map((id) => cluster.kill(id)));
    await cluster.startAll();
    await cluster.settled();
    for (const id of cluster.ids) assert.deepEqual(await describe(cluster.node(id), world), after, `node ${id}`);
  } catch (error) {
    process.stderr.write(cluster.logs());
    throw error;
  } finally {
    await cluster.dispose();
  }
});

test('a backup of the version before is verified and restored', async () => {
  const { world, seen } = readGolden('cluster');
  const location = temporaryFolder('golden');
  unpack('backup', location);
  assert.equal((await ctl(['backup-verify', '--location', location])).code, 0);
  await withServer({ cores: 1, groups: GROUPS, http: 'cors_origins = ["*"]' }, async (server) => {
    const toml = `[[nodes]]\nid = 1\nhost = "127.0.0.1"\nadmin_port = ${server.adminPort}\n`;
    const file = scratchFile('cluster.toml', toml);
    const restored = await ctl(['restore', '--config', file, '--location', location]);
    assert.equal(restored.code, 0, restored.stderr);
    assert.deepEqual(await describe(server, world), seen);
  });
  removeFolder(location);
});
