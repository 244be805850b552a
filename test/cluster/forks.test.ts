// Forks between groups of a cluster, while nodes die: what clients are told holds, and nothing is left behind.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';

const TEXT = { 'content-type': 'text/plain' } as const;
const PIECE = 1024 * 1024;
/** As many pieces does a fork take, with a commit each. */
const PIECES = 5;
/** A fork may be whole before the node dies: then it is tried again. */
const ATTEMPTS = 12;
/** The one that is a process. */
const DYING = 3;

async function call(
  cluster: TestCluster,
  id: number,
  method: string,
  path: string,
  headers = {},
): Promise<RawResponse> {
  return await requestOnce(cluster.node(id).port, method, path, headers);
}

async function fill(cluster: TestCluster, id: number, path: string): Promise<void> {
  const client = cluster.client(id);
  await client.create(path, TEXT);
  for (let i = 0; i < PIECES; i++) await client.append(path, TEXT, Buffer.alloc(PIECE, `${i} `));
}

/** Size and digest of everything that a node shows. */
async function contents(cluster: TestCluster, id: number, path: string): Promise<string> {
  const hash = createHash('sha256');
  let offset = '-1';
  let size = 0;
  for (;;) {
    const answer = await cluster.client(id).expect(200, 'GET', `${path}?offset=${offset}`);
    hash.update(answer.body);
    size += answer.body.length;
    offset = answer.headers.get('stream-next-offset') as string;
    if (answer.headers.get('stream-up-to-date') === 'true') break;
  }
  return `${size} ${hash.digest('hex')}`;
}

/** A fork is there as a whole, or not yet: a node that cannot ask the leader within a second says what it knows. */
async function shown(cluster: TestCluster, id: number, path: string, expected: string): Promise<void> {
  await until(`node ${id} shows ${path}`, async () => (await statusOf(cluster, id, path)) === 200);
  assert.equal(await contents(cluster, id, path), expected);
}

async function statusOf(cluster: TestCluster, id: number, path: string): Promise<number> {
  return (await cluster.client(id).request('HEAD', path)).status;
}

/** Kills the node that dies while node `maker` makes a fork; undefined: the fork was whole before. */
async function killInTheMiddle(
  cluster: TestCluster,
  maker: number,
  fork: string,
  source: string,
): Promise<{ readonly status: number } | undefined> {
  const put = call(cluster, maker, 'PUT', fork, { 'stream-forked-from': source }).then(
    ({ status }) => ({ status }),
    () => ({ status: 0 }),
  );
  let early = false;
  void put.then(() => (early = true));
  await until('the fork is being made', async () => early || (await cluster.metrics(maker))['forks_in_making'] === 1);
  if (early) return undefined;
  await cluster.kill(DYING);
  return await put;
}

/** A fork survives the node that makes it, and the leaders of both groups. */
async function forksSurvive(cluster: TestCluster): Promise<void> {
  const source = '/forks/source';
  await fill(cluster, 1, source);
  const expected = await contents(cluster, 1, source);
  // The maker dies, or one of the others, which lead some of the groups.
  const isHit = { maker: false, other: false };
  for (let attempt = 0; attempt < ATTEMPTS && !(isHit.maker && isHit.other); attempt++) {
    const dying = isHit.maker ? 'other' : 'maker';
    const maker = dying === 'maker' ? DYING : 1 + (attempt % 2);
    const fork = `/forks/fork-${attempt}`;
    const told = await killInTheMiddle(cluster, maker, fork, source);
    if (told === undefined) continue;
    isHit[dying] = true;
    const other = 2 - (attempt % 2);
    if (dying === 'other') assert([201, 503].includes(told.status), `the maker lives, and answered ${told.status}`);
    // The dead node may have been the one to end it, or a step did not find a leader in time.
    const made = await cluster.client(other).request('PUT', fork, { 'stream-forked-from': source });
    assert([200, 201].includes(made.status), `${fork}: ${made.status} ${made.body.toString()}`);
    await shown(cluster, other, fork, expected);
    if (dying === 'maker') {
      await cluster.restart(DYING);
      await cluster.ready(cluster.ids);
      await shown(cluster, DYING, fork, expected);
    }
    await cluster.client(other).delete(fork);
  }
  assert.deepEqual(isHit, { maker: true, other: true }, 'forks were hit in the middle');
  await nothingIsLeft(cluster, source);
}

/** Whichever node died: no pin holds the source, and its name is free. */
async function nothingIsLeft(cluster: TestCluster, source: string): Promise<void> {
  const [first, second] = cluster.runningIds as [number, number];
  await cluster.client(first).delete(source);
  await until('no pin keeps the source', async () => (await statusOf(cluster, second, source)) === 404);
  await cluster.client(first).create(source, TEXT);
}

/** Chains between groups: names stay taken while forks live, and are free everywhere when the last is gone. */
async function chainsHoldNames(cluster: TestCluster): Promise<void> {
  const names = Array.from({ length: 8 }, (_, i) => `/chain/link-${i}`);
  await cluster.client(1).create(names[0] as string, TEXT);
  for (let i = 1; i < names.length; i++) {
    const [before, name] = [names[i - 1] as string, names[i] as string];
    await cluster.client(1 + (i % 3)).append(before, TEXT, `${i}`);
    await cluster.client(1 + ((i + 1) % 3)).create(name, { 'stream-forked-from': before });
  }
  const last = names[names.length - 1] as string;
  for (const name of names.slice(0, -1)) await cluster.client(2).delete(name);
  for (const id of cluster.ids) {
    for (const name of names.slice(0, -1)) assert.equal(await statusOf(cluster, id, name), 410, `${name} on ${id}`);
    const read = await cluster.client(id).expect(200, 'GET', `${last}?offset=-1`);
    assert.equal(read.body.toString(), '1234567');
  }
  await cluster.client(3).delete(last);
  for (const name of names) {
    // The cascade is told through the node that got the DELETE, and waited for; a machine under load may take longer.
    await until(`${name} is gone`, async () => (await statusOf(cluster, 3, name)) === 404);
    for (const id of cluster.ids)
      await until(`${name} on ${id}`, async () => (await statusOf(cluster, id, name)) === 404);
  }
}

test('names stay taken while forks of forks live, and forks survive the nodes that make them', async () => {
  await withCluster({ process: [DYING], groups: 4 }, async (cluster) => {
    await chainsHoldNames(cluster);
    await forksSurvive(cluster);
  });
});

/**
 * Begins a fork at a leader that is alone: it is in its log, which is the longest, and will be committed after all.
 * False: the leader knew already that it is alone, or leads no more, so that nothing began.
 */
async function loseMajority(cluster: TestCluster, leader: number, fork: string, source: string): Promise<boolean> {
  // The others do not reach each other either, and so elect no other leader.
  for (const id of cluster.ids) cluster.network.isolate(id, cluster.ids);
  try {
    const told = await call(cluster, leader, 'PUT', fork, { 'stream-forked-from': source });
    assert.equal(told.status, 503, told.body.toString());
    return (await cluster.metrics(leader))['forks_undoing'] === 1;
  } finally {
    cluster.network.heal();
    await cluster.ready();
  }
}

test('a fork whose majority was lost while it began is given up when the majority is back', async () => {
  await withCluster({ groups: 1, network: true }, async (cluster) => {
    const source = '/forks/source';
    await cluster.client(1).create(source, TEXT);
    let begun: { readonly leader: number; readonly fork: string } | undefined;
    for (let attempt = 0; attempt < ATTEMPTS && begun === undefined; attempt++) {
      const [leader, fork] = [await cluster.leaderOf(0), `/forks/fork-${attempt}`];
      if (await loseMajority(cluster, leader, fork, source)) begun = { leader, fork };
    }
    assert(begun !== undefined, 'a fork lost its majority while it began');
    const { leader, fork } = begun;
    await until('the fork is given up', async () => (await cluster.metrics(leader))['forks_undoing'] === 0);
    await until('its name is free', async () => {
      const { status } = await cluster.client(leader).request('PUT', fork, TEXT);
      // 200: by an attempt without an answer.
      return status === 201 || status === 200;
    });
    await nothingIsLeft(cluster, source);
  });
});
