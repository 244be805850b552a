// A node that was away for longer than the others keep their logs gets snapshots, also onto an empty disk.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readAll } from '../crash/look.ts';
import { RawClient, requestOnce, type HeaderList, type RawResponse } from '../support/raw-client.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';

const GROUPS = 2;
const TEXT = { 'Content-Type': 'text/plain' } as const;
/** Each group keeps 4 MiB of log for slow followers; this is several times as much. */
const STREAMS = 12;
const APPENDS = 10;
const APPEND_BYTES = 512 * 1024;
/** Of a few bytes each; the large ones before them fill many pieces of a snapshot. */
const MANY = 10_000;
const CONNECTIONS = 16;

async function fill(cluster: TestCluster, through: number, prefix: string): Promise<string[]> {
  const client = await RawClient.connect(cluster.node(through).port);
  const paths: string[] = [];
  for (let s = 0; s < STREAMS; s++) {
    const path = `/snap/${prefix}-${s}`;
    assert.equal((await client.request('PUT', path, TEXT)).status, 201);
    for (let n = 0; n < APPENDS; n++) {
      const headers = { ...TEXT, 'Producer-Id': 'p', 'Producer-Epoch': 0, 'Producer-Seq': n };
      const answer = await client.request('POST', path, headers, `${prefix}${s}:${n};`.padEnd(APPEND_BYTES, '.'));
      assert.equal(answer.status, 200, answer.body.toString('utf8'));
    }
    paths.push(path);
  }
  client.destroy();
  return paths;
}

/** Many small streams through all given nodes at once. */
async function createMany(cluster: TestCluster, through: readonly number[], count: number): Promise<void> {
  let next = 0;
  const work = Array.from({ length: CONNECTIONS }, async (_, i) => {
    const client = await RawClient.connect(cluster.node(through[i % through.length] as number).port);
    while (next < count) {
      const n = next++;
      const answer = await client.request('PUT', `/many/s${n}`, TEXT, `stream ${n}\n`);
      assert.equal(answer.status, 201, answer.body.toString('utf8'));
    }
    client.destroy();
  });
  await Promise.all(work);
}

async function expectEqual(cluster: TestCluster, paths: readonly string[]): Promise<void> {
  const clients = await Promise.all(cluster.ids.map((id) => RawClient.connect(cluster.node(id).port)));
  for (const path of paths) {
    const contents = await Promise.all(clients.map((client) => readAll(client, path, false)));
    assert(contents[0] !== undefined, `${path} is there`);
    for (const content of contents) assert(content?.content === contents[0].content, `${path} is the same everywhere`);
  }
  for (const client of clients) client.destroy();
}

async function usageOf(cluster: TestCluster, id: number): Promise<unknown> {
  const answer = await requestOnce(cluster.node(id).adminPort, 'GET', '/__svc/usage');
  return JSON.parse(answer.body.toString('utf8'));
}

/** Asks again while the death of a leader is not noticed or its group has no new one. */
async function post(
  cluster: TestCluster,
  id: number,
  path: string,
  headers: HeaderList,
  body: string,
): Promise<RawResponse> {
  let answer: RawResponse;
  await until(`an answer of node ${id} to ${path}`, async () => {
    answer = await requestOnce(cluster.node(id).port, 'POST', path, headers, body);
    return answer.status !== 503;
  });
  return answer!;
}

/** Any leader recognises a repetition of a producer's last append: dedup state came with the snapshot. */
async function expectDuplicate(cluster: TestCluster, id: number, path: string): Promise<void> {
  const headers = { ...TEXT, 'Producer-Id': 'p', 'Producer-Epoch': 0, 'Producer-Seq': APPENDS - 1 };
  const answer = await post(cluster, id, path, headers, 'again');
  assert.equal(answer.status, 204, answer.body.toString('utf8'));
}

test('a node that was down while the others purged their logs is filled by snapshots', async () => {
  await withCluster({ groups: GROUPS }, async (cluster) => {
    const before = await fill(cluster, 1, 'before');
    await cluster.kill(3);
    await cluster.ready([1, 2]);
    const during = await fill(cluster, 2, 'during');
    const deleted = before.splice(0, 3);
    for (const path of deleted) {
      assert.equal((await requestOnce(cluster.node(1).port, 'DELETE', path)).status, 204);
    }
    const since = performance.now();
    await cluster.restart(3);
    await cluster.settled(cluster.ids);
    process.stdout.write(`a node that was away is back after ${Math.round(performance.now() - since)} ms\n`);
    assert.match(cluster.node(3).log(), /receiving a snapshot/, 'the log alone was not enough');
    await expectEqual(cluster, [...before, ...during]);
    for (const path of deleted) {
      assert.equal((await requestOnce(cluster.node(3).port, 'GET', path)).status, 404);
    }
    assert.deepEqual(await usageOf(cluster, 3), await usageOf(cluster, 1));
    // It holds it on its own disk, and can lead with it.
    await cluster.kill(3);
    await cluster.restart(3);
    await cluster.kill(1);
    await cluster.ready([2, 3]);
    for (const path of during.slice(0, 3)) await expectDuplicate(cluster, 3, path);
    await fill(cluster, 3, 'after');
    await cluster.restart(1);
    await cluster.settled(cluster.ids);
    await expectEqual(cluster, [...before, ...during]);
  });
});

test(`a node with an empty disk and ${MANY} streams to get`, { timeout: 600_000 }, async () => {
  await withCluster({ groups: GROUPS }, async (cluster) => {
    const paths = await fill(cluster, 1, 'large');
    await createMany(cluster, [1, 2, 3], MANY);
    await cluster.kill(3);
    cluster.wipe(3);
    cluster.configure(3, false);
    await cluster.ready([1, 2]);
    await cluster.restart(3);
    await expectNoVote(cluster, 3);
    const since = performance.now();
    await allowReverts(cluster, 3);
    await cluster.ready([3]);
    await cluster.settled(cluster.ids);
    process.stdout.write(`an empty node got ${MANY} streams in ${Math.round(performance.now() - since)} ms\n`);
    const sample = Array.from({ length: 200 }, (_, i) => `/many/s${Math.floor((i * MANY) / 200)}`);
    await expectEqual(cluster, [...paths, ...sample]);
    assert.deepEqual(await usageOf(cluster, 3), await usageOf(cluster, 1));
    // It votes again: with another node down the groups need it.
    await cluster.kill(1);
    await cluster.ready([2, 3]);
    await expectDuplicate(cluster, 3, paths[0] as string);
    assert.equal((await post(cluster, 3, '/many/s0', TEXT, 'more\n')).status, 204);
    await cluster.restart(1);
    await cluster.settled(cluster.ids);
    await expectEqual(cluster, ['/many/s0', ...paths]);
  });
});

/** It knows the leaders, gets nothing, does not lead, is not ready; the others go on. */
async function expectNoVote(cluster: TestCluster, id: number): Promise<void> {
  await until('the wiped node hears of the leaders', async () =>
    (await cluster.groups(id)).every(({ leader }) => leader !== null),
  );
  const others = cluster.ids.filter((other) => other !== id);
  assert.equal((await requestOnce(cluster.node(others[0] as number).port, 'PUT', '/any/while-away', TEXT)).status, 201);
  for (const group of await cluster.groups(id)) {
    assert.notEqual(group.leader, id, 'a node without its log leads');
    assert.equal(group.last_applied, 0, 'a node without its log is not filled before it is allowed');
  }
  assert.equal((await cluster.readiness(id)).status, 503, 'a node without its log is not ready');
}

async function allowReverts(cluster: TestCluster, id: number): Promise<void> {
  for (const group of cluster.groupIds) {
    const leader = await cluster.leaderOf(group);
    const path = `/__svc/raft/${group}/nodes/${id}/allow-next-revert`;
    const answer = await requestOnce(cluster.node(leader).adminPort, 'POST', path);
    assert.equal(answer.status, 200, answer.body.toString('utf8'));
  }
}
