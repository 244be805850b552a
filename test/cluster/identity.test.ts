// Which cluster a data directory belongs to, and which directory it is: what must not be mixed is not, and a node whose
// disk is not the one that the others know does not vote.
import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { TestCluster, withCluster } from '../support/cluster.ts';
import { PATIENCE_MS, until } from '../support/until.ts';
import { clusterToml, ctl, scratchFile } from '../support/ctl.ts';
import { TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';

const TEXT = { 'content-type': 'text/plain' };
const ID = /^[0-9a-f]{32}$/;
const EXIT_CONFIG = 2;
/** The identity is one thing of all shards. */
const TWO_SHARDS = { groups: 2, cores: 2 } as const;

interface Stored {
  readonly clusterId: string;
  readonly directoryId: string;
  readonly settled: readonly unknown[];
}

function stored(server: TestServer): Stored {
  return JSON.parse(readFileSync(join(server.dataDir, 'millrace.json'), 'utf8')) as Stored;
}

async function put(server: TestServer, path: string, body: string): Promise<void> {
  await server.client.create(path, TEXT, body);
}

async function read(server: TestServer, path: string): Promise<string> {
  return (await server.client.request('GET', `${path}?offset=0`)).body.toString();
}

/** The identity that a node shows, once it is on its disk too. */
async function identityOf(cluster: TestCluster, id: number): Promise<string> {
  let shown: unknown;
  await until(`node ${id} knows its cluster`, async () => {
    shown = (await cluster.metrics(id))['cluster_id'];
    return shown !== null && shown === stored(cluster.node(id)).clusterId;
  });
  assert(typeof shown === 'string' && ID.test(shown), String(shown));
  return shown;
}

test('nodes with the directories of two clusters do not talk to each other, and say why', async () => {
  const [first, second] = [await TestCluster.create({ groups: 1 }), await TestCluster.create({ groups: 1, nodes: 2 })];
  try {
    for (const cluster of [first, second]) await cluster.startAll();
    const [ours, theirs] = [await identityOf(first, 1), await identityOf(second, 1)];
    assert.notEqual(ours, theirs);
    for (const id of [2, 3]) assert.equal(await identityOf(first, id), ours);
    await put(first.node(1), '/mix/first', 'ours');
    await put(second.node(1), '/mix/second', 'theirs');
    for (const cluster of [first, second]) for (const id of cluster.ids) await identityOf(cluster, id);
    // The operator mounts the wrong volume.
    await Promise.all([first.end(2), second.end(2)]);
    rmSync(first.node(2).dataDir, { recursive: true });
    cpSync(second.node(2).dataDir, first.node(2).dataDir, { recursive: true });
    await first.restart(2);
    await first.node(2).logged(new RegExp(`other-cluster: .*${theirs}.*${ours}|other-cluster: .*${ours}.*${theirs}`));
    assert.equal((await first.readiness(2)).status, 503);
    await first.client(1).expect(404, 'GET', '/mix/second?offset=0');
    assert.equal(await identityOf(first, 2), theirs);
  } catch (error) {
    process.stderr.write(first.logs() + second.logs());
    throw error;
  } finally {
    await Promise.all([first.dispose(), second.dispose()]);
  }
});

test('the directory of a single node is no member of a new cluster, and that of a member no single node', async () => {
  const cluster = await TestCluster.create(TWO_SHARDS);
  const folder = temporaryFolder('single');
  const single = new TestServer({ ...TWO_SHARDS, dataDir: join(folder, 'data') });
  try {
    await single.start();
    await put(single, '/demo/hello', 'of the single node');
    await within(single.logged(/belongs to this cluster|listening/), PATIENCE_MS, 'a start');
    assert.equal(await single.stop(), 0);
    cpSync(single.dataDir, cluster.node(1).dataDir, { recursive: true });
    await assert.rejects(cluster.node(1).start('health'), /ended with 2/);
    assert.equal(await cluster.node(1).exited, EXIT_CONFIG);
    await cluster.node(1).logged(/raft\.init_membership = true: .* written by a single node.*add-member/);
    // The others are a separate cluster by now; a file that says otherwise does not merge them.
    await Promise.all([2, 3].map((id) => cluster.node(id).start('health')));
    await cluster.ready([2, 3]);
    assert.equal(await identityOf(cluster, 2), await identityOf(cluster, 3));
    cluster.configure(1, false);
    await cluster.node(1).start('health');
    await cluster.node(1).logged(/other-cluster/);
    assert.equal(await read(cluster.node(1), '/demo/hello'), 'of the single node');
    await cluster.client(2).expect(404, 'GET', '/demo/hello?offset=0');

    await cluster.end(2);
    const other = new TestServer({ ...TWO_SHARDS, dataDir: join(folder, 'member') });
    cpSync(cluster.node(2).dataDir, other.dataDir, { recursive: true });
    const asNode2 = new TestServer({ ...TWO_SHARDS, dataDir: other.dataDir, toml: '[raft]\nnode_id = 2\n' });
    await assert.rejects(asNode2.start(), /ended with 2.*that of a member of a cluster.*raft\.peers/s);
    await Promise.all([other.dispose(), asNode2.dispose()]);
  } catch (error) {
    process.stderr.write(cluster.logs());
    throw error;
  } finally {
    await Promise.all([cluster.dispose(), single.dispose()]);
    removeFolder(folder);
  }
});

test('a peer that was away while a node lost two disks costs no third permission', async () => {
  await withCluster({ groups: 1, nodes: 5 }, async (cluster) => {
    const file = scratchFile('c.toml', clusterToml(cluster));
    await put(cluster.node(2), '/twice/before', 'acknowledged');
    await cluster.settled();
    await cluster.end(5);
    for (const losses of [1, 2]) {
      await cluster.end(1);
      cluster.wipe(1);
      await cluster.restart(1);
      await cluster.node(1).logged(/not the one that a peer knows under this node id/);
      await cluster.ready([2, 3, 4]);
      const armed = await ctl(['allow-rejoin', '--config', file, '--node', '1']);
      assert.equal(armed.stdout, 'node 1: empty-log rejoin armed on every group leader\n', armed.stderr);
      await cluster.ready([1]);
      await until('the file names every loss', async () => stored(cluster.node(1)).settled.length >= losses);
    }
    const settled = stored(cluster.node(1)).settled.length;
    await cluster.restart(5);
    await cluster.ready();
    // Node 5 remembered the first disk.
    await cluster.end(1);
    await cluster.restart(1);
    await cluster.ready();
    assert.equal(stored(cluster.node(1)).settled.length, settled);
    assert.equal(await read(cluster.node(1), '/twice/before'), 'acknowledged');
  });
});

describe('three nodes', () => {
  let cluster: TestCluster;
  let file = '';
  let hasFailed = false;
  before(async () => {
    cluster = await TestCluster.create({ groups: 2 });
    await cluster.startAll();
    file = scratchFile('c.toml', clusterToml(cluster));
  });
  after(async () => {
    if (hasFailed) process.stderr.write(cluster.logs());
    await cluster.dispose();
  });

  const test = (name: string, body: () => Promise<void>): void => {
    it(name, async () => {
      try {
        await body();
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    });
  };

  test('they agree on an identity, which outlives restarts and the loss of a disk; a wiped node does not vote although its file says that the cluster is new', async () => {
    const identity = await identityOf(cluster, 1);
    for (const id of [2, 3]) assert.equal(await identityOf(cluster, id), identity);
    await put(cluster.node(1), '/wiped/before', 'acknowledged');
    await cluster.settled();
    await cluster.end(3);
    await cluster.end(2);
    cluster.wipe(2);
    // init_membership is true still. With node 3 away, its vote would be the one that counts.
    await cluster.restart(2);
    await cluster.node(2).logged(/not the one that a peer knows under this node id/);
    assert.equal(await identityOf(cluster, 2), identity);
    await cluster.end(1);
    await cluster.restart(3);
    // Nor after a restart while the node that could report it is down.
    await cluster.end(2);
    await cluster.restart(2);
    await cluster.restart(1);
    await cluster.ready([1, 3]);
    assert.equal((await cluster.readiness(2)).status, 503);
    const armed = await ctl(['allow-rejoin', '--config', file, '--node', '2']);
    assert.equal(armed.stdout, 'node 2: empty-log rejoin armed on every group leader\n', armed.stderr);
    await cluster.ready([2]);
    assert.equal(await read(cluster.node(2), '/wiped/before'), 'acknowledged');
    // That is over permanently: neither a restart nor a peer that was away starts it again.
    await cluster.end(2);
    await cluster.restart(2);
    await cluster.ready();
    for (const id of cluster.ids) assert.equal(await identityOf(cluster, id), identity);
  });

  test('a directory that was rolled back is noticed at the first contact, also by a node that never led, and not forgotten', async () => {
    const folder = temporaryFolder('image');
    const losses = (): number => stored(cluster.node(2)).settled.length;
    await put(cluster.node(1), '/image/a', 'a');
    await cluster.settled();
    await cluster.end(2);
    cpSync(cluster.node(2).dataDir, join(folder, 'image'), { recursive: true });
    const lossesBefore = losses();
    await cluster.restart(2);
    await cluster.ready();
    await put(cluster.node(1), '/image/b', 'b');
    await cluster.settled();
    await Promise.all([1, 2].map((id) => cluster.end(id)));
    rmSync(cluster.node(2).dataDir, { recursive: true });
    cpSync(join(folder, 'image'), cluster.node(2).dataDir, { recursive: true });
    await cluster.restart(2);
    await cluster.node(2).logged(/older copy of the one that a peer knows/);
    await until('the file says so', async () => losses() === lossesBefore + 1);
    // No leader can be elected, because one of the two nodes that run may not vote. Node 3 follows the dead leader
    // until its election timeout.
    await until('node 3 has no leader', async () => (await cluster.readiness(3)).status === 503);
    await cluster.end(2);
    await cluster.restart(2);
    await cluster.restart(1);
    await cluster.ready([1, 3]);
    assert.equal((await cluster.readiness(2)).status, 503);
    await until('node 2 asks for permission in every group', async () => {
      const groups = (await cluster.groups(2)) as readonly unknown[] as readonly Record<string, unknown>[];
      return groups.every((group) => group['log_lost'] === 'asking');
    });
    const armed = await ctl(['allow-rejoin', '--config', file, '--node', '2']);
    assert.equal(armed.stdout, 'node 2: empty-log rejoin armed on every group leader\n', armed.stderr);
    await cluster.ready();
    assert.equal(await read(cluster.node(2), '/image/b'), 'b');
    removeFolder(folder);
  });
});
