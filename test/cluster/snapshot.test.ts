// A node that was away for longer than the others keep their logs gets snapshots, also onto an empty disk.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { readAll } from '../crash/look.ts';
import { TestCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';

const GROUPS = 2;
const TEXT = { 'Content-Type': 'text/plain' } as const;
/** Each group keeps 4 MiB of log for slow followers; half of these streams, which is its part, are more. */
const STREAMS = 4;
const APPENDS = 5;
const APPEND_BYTES = 512 * 1024;
/** Rows of a few bytes each; the large ones before them fill many pieces of a snapshot. */
const MANY = 200;
const CONNECTIONS = 16;

async function fill(cluster: TestCluster, through: number, prefix: string, appends: number): Promise<string[]> {
  const client = cluster.client(through);
  const paths: string[] = [];
  for (let s = 0; s < STREAMS; s++) {
    const path = `/snap/${prefix}-${s}`;
    await client.create(path, TEXT);
    for (let n = 0; n < appends; n++) {
      const headers = { ...TEXT, 'Producer-Id': 'p', 'Producer-Epoch': 0, 'Producer-Seq': n };
      const answer = await client.request('POST', path, headers, `${prefix}${s}:${n};`.padEnd(APPEND_BYTES, '.'));
      // An attempt whose answer was lost was taken.
      assert([200, 204].includes(answer.status), answer.body.toString('utf8'));
    }
    paths.push(path);
  }
  return paths;
}

/** Many small streams through all given nodes at once. */
async function createMany(cluster: TestCluster, through: readonly number[], count: number): Promise<void> {
  let next = 0;
  const work = Array.from({ length: CONNECTIONS }, async (_, i) => {
    const client = cluster.client(through[i % through.length] as number);
    while (next < count) {
      const n = next++;
      await client.create(`/many/s${n}`, TEXT, `stream ${n}\n`);
    }
  });
  await Promise.all(work);
}

async function expectEqual(cluster: TestCluster, paths: readonly string[]): Promise<void> {
  const clients = cluster.ids.map((id) => cluster.client(id));
  for (const path of paths) {
    const contents = await Promise.all(clients.map((client) => readAll(client, path, false)));
    assert(contents[0] !== undefined, `${path} is there`);
    for (const content of contents) assert(content?.content === contents[0].content, `${path} is the same everywhere`);
  }
}

async function usageOf(cluster: TestCluster, id: number): Promise<unknown> {
  const answer = await cluster.node(id).admin.expect(200, 'GET', '/__svc/usage');
  return JSON.parse(answer.body.toString('utf8'));
}

/** Any leader recognises a repetition of a producer's last append: dedup state came with the snapshot. */
async function expectDuplicate(cluster: TestCluster, id: number, path: string): Promise<void> {
  const headers = { ...TEXT, 'Producer-Id': 'p', 'Producer-Epoch': 0, 'Producer-Seq': APPENDS - 1 };
  await cluster.client(id).expect(204, 'POST', path, headers, 'again');
}

/** It knows the leaders, gets nothing, does not lead, is not ready; the others go on. */
async function expectNoVote(cluster: TestCluster, id: number): Promise<void> {
  await until('the wiped node hears of the leaders', async () =>
    (await cluster.groups(id)).every(({ leader }) => leader !== null),
  );
  const others = cluster.ids.filter((other) => other !== id);
  await cluster.client(others[0] as number).create('/any/while-away', TEXT);
  for (const group of await cluster.groups(id)) {
    assert.notEqual(group.leader, id, 'a node without its log leads');
    assert.equal(group.last_applied, 0, 'a node without its log is not filled before it is allowed');
  }
  assert.equal((await cluster.readiness(id)).status, 503, 'a node without its log is not ready');
}

async function allowReverts(cluster: TestCluster, id: number): Promise<void> {
  for (const group of cluster.groupIds) {
    const path = `/__svc/raft/${group}/nodes/${id}/allow-next-revert`;
    await until(`group ${group} allows it`, async () => {
      const { status, body } = await cluster.node(await cluster.leaderOf(group)).admin.request('POST', path);
      // The leadership has moved meanwhile.
      assert([200, 409].includes(status), body.toString('utf8'));
      return status === 200;
    });
  }
}

describe('a node that the log cannot fill', { timeout: 600_000 }, () => {
  let cluster: TestCluster;
  let hasFailed = false;
  const paths: string[] = [];
  before(async () => {
    cluster = await TestCluster.create({ groups: GROUPS });
    await cluster.startAll();
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

  test('one that was down while the others compacted their logs is filled by snapshots', async () => {
    const before = await fill(cluster, 1, 'before', 1);
    await cluster.end(3);
    await cluster.ready([1, 2]);
    const during = await fill(cluster, 2, 'during', APPENDS);
    const deleted = before.splice(0, 2);
    for (const path of deleted) {
      await cluster.client(1).delete(path);
    }
    paths.push(...during, ...before);
    const since = performance.now();
    await cluster.restart(3);
    await cluster.settled(cluster.ids);
    process.stdout.write(`a node that was away is back after ${Math.round(performance.now() - since)} ms\n`);
    // The log alone was not enough.
    await cluster.node(3).logged(/receiving a snapshot/);
    await expectEqual(cluster, paths);
    for (const path of deleted) {
      await cluster.client(3).expect(404, 'GET', path);
    }
    assert.deepEqual(await usageOf(cluster, 3), await usageOf(cluster, 1));
    // It holds it on its own disk, and can lead with it.
    await cluster.end(3);
    await cluster.restart(3);
    await cluster.end(1);
    await cluster.ready([2, 3]);
    for (const path of during) await expectDuplicate(cluster, 3, path);
    for (const path of paths) await cluster.client(3).append(path, TEXT, 'after\n');
    await cluster.restart(1);
    await cluster.settled(cluster.ids);
    await expectEqual(cluster, paths);
  });

  test(`one with an empty disk and ${MANY} streams to get`, async () => {
    await createMany(cluster, [1, 2, 3], MANY);
    await cluster.end(3);
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
    const sample = Array.from({ length: 50 }, (_, i) => `/many/s${Math.floor((i * MANY) / 50)}`);
    await expectEqual(cluster, [...paths, ...sample]);
    assert.deepEqual(await usageOf(cluster, 3), await usageOf(cluster, 1));
    // It votes again: with another node down the groups need it.
    await cluster.end(1);
    await cluster.ready([2, 3]);
    await expectDuplicate(cluster, 3, paths[0] as string);
    await cluster.client(3).append('/many/s0', TEXT, 'more\n');
    await cluster.restart(1);
    await cluster.settled(cluster.ids);
    await expectEqual(cluster, ['/many/s0', ...paths]);
  });
});
