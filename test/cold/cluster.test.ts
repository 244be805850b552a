// Three real nodes with one store, while leaderships move, the leader is killed, and a node comes back that needs a
// snapshot of a group whose bytes are mostly cold. Every producer's appends are there once and in order on every node,
// and the store is empty when the streams are deleted.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { objectsIn } from '../support/cold-store.ts';

const GROUPS = 2;
/** Dies twice, the second time as the leader of a group. */
const DYING = 3;
const STREAMS = 6;
/** Half of them, 8 MiB, are more than the log that the groups keep for a node that is away. */
const APPENDS = 56;
const BODY_BYTES = 48 * 1024;
const PATIENCE_MS = 180_000;
const RETRY_MS = 50;
const TYPE = { 'Content-Type': 'application/octet-stream' } as const;

const toml = (directory: string): string => `
[storage.cold]
backend = "dir"
dir = "${directory}"
root = "cluster"
flush_interval = "100ms"
flush_size = "256 KiB"
flush_max_size = "1 MiB"
max_hot_size_per_group = "4 MiB"
gc_interval = "100ms"
gc_grace = "100ms"
compaction_gc_grace = "100ms"
sweep_interval = "1s"
sweep_grace = "3s"
`;

const nameOf = (stream: number): string => `/cluster/stream-${stream}`;

function bodyOf(stream: number, append: number): Buffer {
  const pattern = Buffer.alloc(8);
  pattern.writeUInt32LE(stream, 0);
  pattern.writeUInt32LE(append, 4);
  return Buffer.alloc(BODY_BYTES, pattern);
}

interface Filling {
  appends: number;
  isOver: boolean;
}

/** Appends each once, through any node; tries another node after every failure. */
async function fill(cluster: TestCluster, stream: number, filling: Filling): Promise<void> {
  let node = (stream % 3) + 1;
  let client: RawClient | undefined;
  for (let seq = 0; seq < APPENDS && !filling.isOver;) {
    try {
      client ??= await RawClient.connect(cluster.node(node).port);
      const headers = { ...TYPE, 'Producer-Id': 'p', 'Producer-Epoch': 0, 'Producer-Seq': seq };
      const answer = await client.request('POST', nameOf(stream), headers, bodyOf(stream, seq));
      if (answer.status === 200 || answer.status === 204) {
        seq++;
        filling.appends++;
        continue;
      }
      assert.equal(answer.status, 503, answer.body.toString());
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      assert(node === DYING || cluster.node(node).isRunning, `node ${node} ended`);
    }
    client?.destroy();
    client = undefined;
    node = (node % 3) + 1;
    await delay(RETRY_MS);
  }
  client?.destroy();
}

async function readBack(cluster: TestCluster, node: number, stream: number): Promise<void> {
  const parts: Buffer[] = [];
  for (let offset = 0; offset < APPENDS * BODY_BYTES;) {
    const answer = await cluster.client(node).expect(200, 'GET', `${nameOf(stream)}?offset=${offset}`);
    assert(answer.body.length > 0, `node ${node}: stream ${stream} ends at ${offset}`);
    parts.push(answer.body);
    offset += answer.body.length;
  }
  const found = Buffer.concat(parts);
  const expected = Buffer.concat(Array.from({ length: APPENDS }, (_, append) => bodyOf(stream, append)));
  assert(found.equals(expected), `node ${node} shows stream ${stream} as it was sent`);
}

async function eachNode(cluster: TestCluster, name: string, value: number): Promise<boolean> {
  for (const id of cluster.ids) if ((await cluster.metrics(id))[name] !== value) return false;
  return true;
}

/** Moves every leadership to the next node. */
async function rotate(cluster: TestCluster): Promise<void> {
  for (const group of cluster.groupIds) {
    const leader = await cluster.leaderOf(group);
    const to = cluster.runningIds.find((id) => id !== leader);
    // Refused when another request has already moved it, which is just as good.
    await requestOnce(cluster.node(leader).adminPort, 'POST', `/__svc/raft/${group}/leader/transfer/${to}`);
  }
}

test('leaders that come and go while bytes move to the cold store lose nothing and leave nothing behind', async () => {
  const directory = temporaryFolder('cold');
  await withCluster({ process: [DYING], groups: GROUPS, toml: toml(directory) }, async (cluster) => {
    const streams = Array.from({ length: STREAMS }, (_, stream) => stream);
    for (const stream of streams) await cluster.client(1).create(nameOf(stream), TYPE);
    const filling: Filling = { appends: 0, isOver: false };
    const reached = async (part: number): Promise<void> => {
      const wanted = part * STREAMS * APPENDS;
      await until(`${part} of the appends`, async () => filling.isOver || filling.appends >= wanted, PATIENCE_MS);
      assert(filling.appends >= wanted, 'the writers ended');
    };
    const die = async (): Promise<void> => {
      await reached(0.1);
      await cluster.kill(DYING);
      await reached(0.3);
      await rotate(cluster);
      await reached(0.6);
      // It needs what the others have compacted out of their logs: a snapshot of rows, while the bytes are in the store.
      await cluster.restart(DYING);
      await cluster.node(DYING).logged(/receiving a snapshot/);
      await reached(0.7);
      await cluster.ready();
      await rotate(cluster);
      await cluster.moveLeader(0, DYING);
      await cluster.kill(DYING);
      await reached(0.9);
      await cluster.restart(DYING);
    };
    try {
      await Promise.all([die(), ...streams.map((stream) => fill(cluster, stream, filling))]);
    } finally {
      filling.isOver = true;
    }
    await cluster.ready();
    await until('nothing is hot', () => eachNode(cluster, 'cold_hot_bytes', 0), PATIENCE_MS);
    await cluster.settled();
    for (const id of cluster.ids) await Promise.all(streams.map((stream) => readBack(cluster, id, stream)));
    await until(
      'orphans are gone',
      async () => {
        return objectsIn(directory).length === ((await cluster.metrics(1))['cold_objects'] as number);
      },
      PATIENCE_MS,
    );
    const sums = { flushes: 0, forgotten: 0, orphans: 0 };
    for (const id of cluster.ids) {
      const found = await cluster.metrics(id);
      sums.flushes += found['cold_flush_publishes'] as number;
      sums.forgotten += found['cold_flush_forgotten'] as number;
      sums.orphans += found['cold_orphan_cleanup_attempts'] as number;
    }
    process.stdout.write(
      `cluster with a cold store: ${JSON.stringify(sums)}, ${objectsIn(directory).length} objects\n`,
    );
    for (const stream of streams) {
      await until('a delete', async () => {
        return (await requestOnce(cluster.node(2).port, 'DELETE', nameOf(stream))).status !== 503;
      });
    }
    await until('the store is empty', async () => objectsIn(directory).length === 0, PATIENCE_MS);
    await until('nothing is left to collect', () => eachNode(cluster, 'cold_objects', 0), PATIENCE_MS);
  });
  removeFolder(directory);
});
