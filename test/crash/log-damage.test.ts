// Rot in the log of a node: nothing is served from what cannot be read, and nothing acknowledged is lost.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { TestCluster, withCluster } from '../support/cluster.ts';
import { requestOnce } from '../support/raw-client.ts';
import { TestServer } from '../support/server.ts';
import { DATA_AT, rot } from './rot-record.ts';
import { hasStrace, straced } from './strace.ts';

const TEXT = { 'content-type': 'text/plain' };
const EXIT_REFUSED = 2;
const GROUPS = 4;
const STREAMS = 12;
async function writeAll({ client }: TestServer, body: string): Promise<void> {
  for (let i = 0; i < STREAMS; i++) {
    await client.request('PUT', `/rot/s${i}`, TEXT);
    await client.append(`/rot/s${i}`, TEXT, body);
  }
}

async function checkAll({ client }: TestServer, content: string): Promise<void> {
  for (let i = 0; i < STREAMS; i++)
    assert.equal((await client.expect(200, 'GET', `/rot/s${i}?offset=0`)).body.toString(), content);
}

test('a single node refuses to start with a log that rotted, and starts when the bytes are back', async (t) => {
  const server = new TestServer({ cores: 1, groups: GROUPS });
  t.after(() => server.dispose());
  await server.start();
  await writeAll(server, 'first;');
  await writeAll(server, 'second;');
  await server.end();
  const { path, at, name, sequence } = await rot(server, 0);
  const rotten = readFileSync(path);
  for (let i = 0; i < 2; i++) {
    await assert.rejects(server.start(), /ended with 2 before it was ready/);
    assert.equal(await server.exited, EXIT_REFUSED);
    const said = server.log().trimEnd().split('\n').at(-1) ?? '';
    assert.match(said, new RegExp(`shard-0: record ${sequence} is not readable .* from ${name} at byte ${at} on`));
    assert.match(
      said,
      /nothing was changed; no other node has what is in it: restore the data directory from a copy, .* with millracectl salvage DIR NEW-DIR$/,
    );
    assert.deepEqual(readFileSync(path), rotten);
  }
  rotten[at + DATA_AT] = (rotten[at + DATA_AT] ?? 0) ^ 0x10;
  writeFileSync(path, rotten);
  await server.start();
  await checkAll(server, 'first;second;');
});

test('a single node that got peers, and whose log rotted before they have anything, gives up nothing of it', async (t) => {
  if (!(await hasStrace(t))) return;
  // The thread that writes checkpoints is still opening its file when the node gives up. To end it there is a SIGABRT.
  const wrapper: string[] = [];
  const cluster = await TestCluster.create({ process: true, groups: GROUPS, serverOf: () => ({ wrapper }) });
  const first = cluster.node(1);
  try {
    writeFileSync(first.configFile, '[raft]\nnode_id = 1\n');
    await first.start();
    await writeAll(first, 'first;');
    await first.kill();
    const { path, at } = await rot(first, 0);
    const rotten = readFileSync(path);
    cluster.configure(1, false);
    const opened = join(first.dataDir, 'shard-0', 'data.mdb');
    const slow = ['-P', opened, '-P', path, '-e', 'trace=openat', '-e', 'inject=openat:delay_exit=400000:when=2+'];
    wrapper.push(...straced('/dev/null', ...slow));
    await assert.rejects(first.start(), /ended with 2 before it was ready/);
    wrapper.length = 0;
    assert.match(first.log(), /nothing was changed; no other node has what is in it: restore/);
    assert.deepEqual(readFileSync(path), rotten);
    rotten[at + DATA_AT] = (rotten[at + DATA_AT] ?? 0) ^ 0x10;
    writeFileSync(path, rotten);
    await first.start();
    await checkAll(first, 'first;');
  } finally {
    await cluster.dispose();
  }
});

test('a node of three whose log rotted serves nothing from it and is restored by the others', async () => {
  await withCluster({ groups: GROUPS, cores: 2 }, async (cluster) => {
    const node = cluster.node(2);
    await writeAll(cluster.node(1), 'first;');
    await writeAll(cluster.node(1), 'second;');
    await cluster.settled();
    await cluster.end(2);
    const { name, at, sequence } = await rot(node, 1);
    await writeAll(cluster.node(1), 'third;');
    await cluster.restart(2);
    const said = await node.logged(/the log is damaged/);
    assert.match(said, new RegExp(`record ${sequence} is not readable .* from ${name} at byte ${at} on`));
    assert.match(said, /"shard":1,.*"aside":"log\.damaged"/);
    await cluster.ready();
    await cluster.settled();
    // Now its vote and its bytes are those that count.
    await cluster.end(1);
    await cluster.ready([2, 3]);
    await writeAll(cluster.node(3), 'fourth;');
    await checkAll(node, 'first;second;third;fourth;');
    await cluster.end(2);
    await cluster.restart(2);
    await cluster.ready([2, 3]);
    await checkAll(node, 'first;second;third;fourth;');
    assert.equal(node.log().match(/the log is damaged/g)?.length, 1);
  });
});

test('a node whose last record rotted elects no leader that lacks it', async () => {
  await withCluster({ groups: 1 }, async (cluster) => {
    await writeAll(cluster.node(1), 'first;');
    await cluster.settled();
    const leader = await cluster.leaderOf(0);
    const [follower, third] = cluster.ids.filter((id) => id !== leader) as [number, number];
    await cluster.end(third);
    await cluster.client(leader).append('/rot/s0', TEXT, 'second;');
    await cluster.settled();
    await cluster.end(leader);
    await cluster.end(follower);
    await rot(cluster.node(follower), 0, 'last');
    await Promise.all([cluster.restart(follower), cluster.restart(third)]);
    await cluster.node(follower).logged(/the log is damaged/);
    const refused = await requestOnce(cluster.node(third).port, 'POST', '/rot/s0', TEXT, Buffer.from('lost;'));
    assert.deepEqual([refused.status, refused.headers.get('millrace-error')], [503, 'NO_LEADER']);
    await cluster.restart(leader);
    await cluster.ready();
    await cluster.settled();
    for (const id of cluster.ids) {
      const { body } = await cluster.client(id).expect(200, 'GET', '/rot/s0?offset=0');
      assert.equal(body.toString(), 'first;second;');
    }
  });
});
