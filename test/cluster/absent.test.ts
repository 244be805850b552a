// A node that missed many writes never says that what was acknowledged is not there: it shows it, or says that it
// cannot say yet.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';

/** Half more than the log that slow followers are left, in each of two groups: the node that was away needs a snapshot. */
const STREAMS = 6;
const BODY = Buffer.alloc(2 * 1024 * 1024, 'missed ');
const AWAY_ID = 3;
const TEXT = { 'Content-Type': 'text/plain' } as const;
const NOT_YET = /is not here|has not caught up/;

const path = (bucket: string, i: number): string => `/${bucket}/s${i}`;

/** All that may be asked about a stream with one append, and the statuses that show it. */
const QUESTIONS: readonly (readonly [method: string, suffix: string, shown: readonly number[]])[] = [
  ['HEAD', '', [200]],
  ['GET', `?offset=${BODY.length}`, [200]],
  ['GET', `?offset=${BODY.length - 1}`, [200]],
  ['GET', `?offset=${BODY.length}&live=long-poll&timeout_ms=1`, [200, 204]],
  ['GET', '/attrs', [200]],
];

async function ask(client: RawClient, method: string, target: string, shown: readonly number[]): Promise<boolean> {
  const { status, headers, body } = await client.request(method, target);
  if (shown.includes(status)) return true;
  assert.equal(status, 503, `${method} ${target}: ${status} ${body.toString()}`);
  assert.equal(headers.get('retry-after'), '1');
  // HEAD has no body.
  if (method !== 'HEAD') assert.match(body.toString(), NOT_YET);
  return false;
}

/** Asks the node for everything until it shows it; every answer on the way is checked. */
async function asked(cluster: TestCluster, node: number, bucket: string): Promise<void> {
  const one = async (i: number): Promise<void> => {
    const client = await RawClient.connect(cluster.node(node).port);
    for (const [method, suffix, shown] of QUESTIONS) {
      const target = path(bucket, i);
      await until(`node ${node} shows ${target}`, () => ask(client, method, `${target}${suffix}`, shown));
    }
    client.destroy();
  };
  const listing = until(`node ${node} lists all streams`, async () => {
    const { status, body } = await requestOnce(cluster.node(node).port, 'GET', `/${bucket}/streams`);
    if (status === 503) return false;
    assert.equal(status, 200, body.toString());
    assert.equal((JSON.parse(body.toString()) as { stream_count: number }).stream_count, STREAMS, 'a listing is whole');
    return true;
  });
  await Promise.all([...Array.from({ length: STREAMS }, (_, i) => one(i)), listing]);
}

const AWAY: Readonly<Record<string, (cluster: TestCluster, node: number) => Promise<() => Promise<void>>>> = {
  frozen: (cluster, node) => {
    cluster.pause(node);
    return Promise.resolve(() => Promise.resolve(cluster.resume(node)));
  },
  killed: async (cluster, node) => {
    await cluster.kill(node);
    return () => cluster.restart(node);
  },
};

test(`a node that was frozen, or killed, while ${STREAMS} streams were written denies none of them`, async () => {
  await withCluster({ process: [AWAY_ID], groups: 2 }, async (cluster) => {
    for (const [how, leave] of Object.entries(AWAY)) {
      const comeBack = await leave(cluster, AWAY_ID);
      // A group that it led has no leader for a moment.
      for (let i = 0; i < STREAMS; i++) await cluster.client(1).create(path(how, i), TEXT, BODY);
      await comeBack();
      await asked(cluster, AWAY_ID, how);
      await cluster.settled(cluster.ids);
    }
  });
});

test('a node that is cut off from the others denies nothing, and serves what it has', async () => {
  await withCluster({ groups: 2, network: true }, async (cluster) => {
    const { port } = cluster.node(3);
    await cluster.client(3).create('/b/s', TEXT, 'here');
    await cluster.settled();
    cluster.network.isolate(3, cluster.ids);
    const questions: readonly (readonly [string, string])[] = [
      ['GET', '/b/t'],
      ['GET', '/b/s?offset=5'],
      ['GET', '/c'],
      ['GET', '/b/streams'],
      ['GET', '/b/t?offset=-1&live=sse'],
    ];
    // Each waits for the others, so all are asked at once.
    const refused = async ([method, target]: readonly [string, string]): Promise<void> => {
      const client = await RawClient.connect(port);
      assert.equal(await ask(client, method, target, []), false);
      assert.equal((await client.request('GET', '/b/s')).body.toString(), 'here', 'served meanwhile');
      client.destroy();
    };
    await Promise.all(questions.map(refused));
    cluster.network.heal();
    await until('it says what is not there', async () => (await requestOnce(port, 'GET', '/b/t')).status === 404);
  });
});
