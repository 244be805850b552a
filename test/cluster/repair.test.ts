// The disk of one node of three changes rows of its state: the node refuses what needs them, and gets the rows back
// from the others, without an operator.
import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { TestCluster } from '../support/cluster.ts';
import { Environment } from '../../src/store/environment.ts';
import { CheckedRows } from '../../src/store/row-check.ts';
import { OWN_TAG, halfOf, prefixKey, systemKey } from '../../src/store/rows.ts';
import { TAG } from '../../src/stream/core/keys.ts';
import { requestOnce } from '../support/raw-client.ts';
import { until } from '../support/until.ts';

const TEXT = { 'content-type': 'text/plain' };
const GROUP = 0;

/** A stream whose bytes the disk of one node changes. */
interface Scene {
  readonly cluster: TestCluster;
  readonly path: string;
  readonly rotten: string;
}

/** The stream is on all nodes: which leads, and the others. */
async function written({ cluster, path, rotten }: Scene): Promise<[leader: number, follower: number, other: number]> {
  await cluster.client(1).create(path, TEXT);
  await cluster.client(1).append(path, TEXT, rotten);
  await cluster.settled();
  const leader = await cluster.leaderOf(GROUP);
  const [follower, other] = cluster.ids.filter((id) => id !== leader) as [number, number];
  return [leader, follower, other];
}

/** Changes the first letter of each `word` in the file, which the node may have mapped. */
function rot(cluster: TestCluster, id: number, word: string): void {
  const path = join(cluster.node(id).dataDir, 'shard-0', 'data.mdb');
  const content = readFileSync(path);
  const file = openSync(path, 'r+');
  let found = 0;
  for (let at = content.indexOf(word); at >= 0; at = content.indexOf(word, at + 1), found++)
    writeSync(file, Buffer.from([content.readUInt8(at) ^ 1]), 0, 1, at);
  closeSync(file);
  assert(found > 0, `${word} is in ${path}`);
}

/** The node's own answer, which is never anything else than what was written. */
async function read({ cluster, path }: Scene, id: number, content: string): Promise<number> {
  const answer = await requestOnce(cluster.node(id).port, 'GET', `${path}?offset=0`, {}, Buffer.alloc(0));
  if (answer.status === 200) assert.equal(answer.body.toString(), content);
  else assert.equal(answer.headers.get('millrace-error'), 'ROW_DAMAGED', answer.body.toString());
  return answer.status;
}

async function repaired(scene: Scene, id: number, content: string): Promise<void> {
  await until('the node serves the stream again', async () => (await read(scene, id, content)) === 200);
  await scene.cluster.node(id).logged(/replaced by that of its leader/);
}

async function figures(cluster: TestCluster, id: number): Promise<{ counters: object; scrubs: number }> {
  const { damaged_rows, damaged_groups, repaired_groups, scrubs } = await cluster.metrics(id);
  return { counters: { damaged_rows, damaged_groups, repaired_groups }, scrubs: Number(scrubs) };
}

/** The node's own vote and bytes count. */
async function servesWithout(scene: Scene, away: number, id: number, content = scene.rotten): Promise<void> {
  const { cluster, path } = scene;
  await cluster.end(away);
  await cluster.ready();
  await cluster.client(id).append(path, TEXT, 'more;');
  assert.equal(await read(scene, id, `${content}more;`), 200);
  await cluster.restart(away);
  await cluster.ready();
}

/** Changes the row of the group that says how far its state goes, and that of its vote. */
async function rotWholeGroup(cluster: TestCluster, id: number): Promise<void> {
  const environment = new Environment(join(cluster.node(id).dataDir, 'shard-0'));
  const prefix = halfOf(GROUP, environment.state.getBinary(systemKey(OWN_TAG.half, GROUP)));
  environment.commit(() => {
    for (const key of [Uint8Array.of(...prefixKey(prefix), TAG.meta), systemKey(OWN_TAG.vote, GROUP)]) {
      const stored = Uint8Array.from(environment.state.getBinary(key) ?? assert.fail('the group has the row'));
      stored[0] = (stored[0] ?? 0) ^ 1;
      environment.state.putSync(key, stored);
    }
  });
  await environment.close();
}

/** Writes other bytes of the stream than the node had applied, with the checksum that belongs to them. */
async function writeOtherwise({ cluster, rotten }: Scene, id: number): Promise<void> {
  const environment = new Environment(join(cluster.node(id).dataDir, 'shard-0'));
  const rows = new CheckedRows(environment.state);
  environment.commit(() => {
    for (const { key, value } of [...environment.state.getRange({})]) {
      const content = Uint8Array.from(rows.open(key, value));
      const at = Buffer.from(content).indexOf(rotten);
      if (at < 0) continue;
      content[at] = 0x5a;
      rows.put(Uint8Array.from(key), content);
    }
  });
  await environment.close();
}

describe('a node whose disk changes rows', () => {
  let cluster: TestCluster;
  let hasFailed = false;
  let scenes = 0;
  before(async () => {
    cluster = await TestCluster.create({ groups: 1 });
    await cluster.startAll();
  });
  after(async () => {
    if (hasFailed) process.stderr.write(cluster.logs());
    await cluster.dispose();
  });

  /** With a stream of its own. */
  const test = (name: string, body: (scene: Scene) => Promise<void>): void => {
    it(name, async () => {
      const own = `rotten-${++scenes}`;
      try {
        await body({ cluster, path: `/bucket/${own}`, rotten: `PRECIOUS ${own};` });
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    });
  };

  test('a follower whose disk changed a row refuses it and gets it back from its leader', async (scene) => {
    const [leader, id, other] = await written(scene);
    await cluster.end(id);
    rot(cluster, id, scene.rotten);
    await cluster.client(leader).create('/bucket/later', TEXT);
    await cluster.restart(id);
    await repaired(scene, id, scene.rotten);
    await servesWithout(scene, other, id);
  });

  test('a row that no client asks for is found and repaired', async (scene) => {
    const [, id] = await written(scene);
    await cluster.end(id);
    rot(cluster, id, scene.rotten);
    await cluster.restart(id);
    await cluster.node(id).logged(/replaced by that of its leader/);
    const { counters } = await figures(cluster, id);
    assert.deepEqual(counters, { damaged_rows: 0, damaged_groups: 0, repaired_groups: 1 });
    assert.equal(await read(scene, id, scene.rotten), 200);
    await until('all rows are read', async () => (await figures(cluster, id)).scrubs > 0);
  });

  test('a leader whose disk changed a row while it leads passes leadership on and is repaired', async (scene) => {
    await written(scene);
    // Their rows are on disk then, and not in the leader's memory.
    for (const id of cluster.ids) {
      await cluster.end(id);
      await cluster.restart(id);
      await cluster.ready();
    }
    const leader = await cluster.leaderOf(GROUP);
    rot(cluster, leader, scene.rotten);
    assert.equal(await read(scene, leader, scene.rotten), 503);
    await repaired(scene, leader, scene.rotten);
    const other = cluster.ids.find((each) => each !== leader) as number;
    await servesWithout(scene, other, leader);
  });

  test('a group that stopped, because an entry needs a changed row, goes on with the state of its leader', async (scene) => {
    const [leader, id] = await written(scene);
    await cluster.end(id);
    await cluster.restart(id);
    // Nothing else reads the heads now.
    await until('all rows are read', async () => (await figures(cluster, id)).scrubs > 0);
    rot(cluster, id, 'text/plain');
    await cluster.client(leader).append(scene.path, TEXT, 'next;');
    await cluster.node(id).logged(/the group stops on this node/);
    await repaired(scene, id, `${scene.rotten}next;`);
  });

  test('a group that a start cannot open is restored by the others, and then counts again', async (scene) => {
    const [leader, id, other] = await written(scene);
    await cluster.end(id);
    await rotWholeGroup(cluster, id);
    await cluster.client(leader).append(scene.path, TEXT, 'next;');
    await cluster.restart(id);
    await cluster.node(id).logged(/the group is not opened on this node/);
    await repaired(scene, id, `${scene.rotten}next;`);
    await cluster.ready();
    await servesWithout(scene, other, id, `${scene.rotten}next;`);
  });

  test('rows that differ from those of the other replicas, with a valid checksum, are found and restored', async (scene) => {
    const [leader, id, other] = await written(scene);
    // A new process compares when it leads. One at a time: a leader sends entries then, and never its state.
    for (const each of [id, leader, other]) {
      await cluster.settled();
      await cluster.end(each);
      if (each === id) await writeOtherwise(scene, id);
      await cluster.restart(each);
      await cluster.ready();
    }
    await cluster.node(id).logged(/this node has other rows of a group than most replicas/);
    await repaired(scene, id, scene.rotten);
    await until('the group counts as sound', async () => {
      const { damaged_rows, damaged_groups, differing_groups, repaired_groups } = await cluster.metrics(id);
      return [damaged_rows, damaged_groups, differing_groups, repaired_groups].join() === '0,0,0,1';
    });
  });
});
