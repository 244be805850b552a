// Health and readiness without a token: whether, on both planes; what is missing, for who has the admin plane's token.
import { QUERIES } from '../../src/protocol/operations.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionLost, RawClient } from '../support/raw-client.ts';
import { until } from '../support/until.ts';
import { startPlanes } from './planes.ts';

test('load balancers need no token, and learn nothing but whether', async (t) => {
  const { gateway, client, admin } = await startPlanes(t, { clientToken: 'c'.repeat(32), adminToken: 'a'.repeat(32) });
  gateway.script = (asked, reply) => {
    const groups = [0, 1].map((n) => ({ raft_group_id: 2 * (asked.shard ?? 0) + n, leader: 1, voter_ids: [1] }));
    QUERIES.status.result.write(reply, { raft_groups: groups });
  };
  const ask = async (url: string, token?: string): Promise<[number, unknown]> => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const response = await fetch(url, { headers });
    return [response.status, await response.json().catch(() => undefined)];
  };
  for (const base of [client, admin]) {
    assert.deepEqual(await ask(`${base}/__svc/health`), [200, { status: 'up' }]);
    for (let i = 0; i < 2; i++) {
      assert.deepEqual(await ask(`${base}/__svc/ready`), [200, { ready: true }]);
    }
    assert.equal((await fetch(`${base}/__svc/ready`, { method: 'HEAD' })).status, 200);
    assert.equal(
      (await fetch(`${base}/__svc/health`, { method: 'POST' })).status,
      401,
      'a change is nothing for strangers',
    );
    for (const path of ['/__svc/metrics', '/__svc/health/', '/__svc/ready/x']) {
      assert.equal((await fetch(`${base}${path}`)).status, 401, path);
    }
  }
  const [, detailed] = await ask(`${admin}/__svc/ready`, 'a'.repeat(32));
  assert('leaderless_groups' in (detailed as object));
  const [, plain] = await ask(`${client}/__svc/ready`, 'c'.repeat(32));
  assert.deepEqual(Object.keys(plain as object), ['ready']);
});

test('a crowd of strangers costs one question to each shard, however long it takes and whichever client leaves', async (t) => {
  const { gateway, planes, client, port } = await startPlanes(t, { clientToken: 'c'.repeat(32) });
  gateway.script = () => false;
  const open = (count: number): Promise<void> =>
    until(`${count} requests are open`, () => planes.openRequests() === count);
  const first = await RawClient.connect(port);
  const left = assert.rejects(first.request('GET', '/__svc/ready'), ConnectionLost);
  await open(1);
  const crowd = Array.from({ length: 20 }, async () => {
    const response = await fetch(`${client}/__svc/ready`);
    return [response.status, await response.json()];
  });
  await open(21);
  first.destroy();
  await left;
  await open(20);
  gateway.release((asked, reply) => {
    const groups = [0, 1].map((n) => ({ raft_group_id: 2 * (asked.shard ?? 0) + n, leader: 1, voter_ids: [1] }));
    QUERIES.status.result.write(reply, { raft_groups: groups });
  });
  for (const answer of await Promise.all(crowd)) assert.deepEqual(answer, [200, { ready: true }]);
  assert.equal(gateway.asked.length, 2);
});
