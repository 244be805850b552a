// Operators' calls about a Raft group: what is refused before a shard is asked, what a shard is asked, what is passed
// on.
import type { AdminRequest } from '../../src/protocol/queries/administration.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { requestOnce } from '../support/raw-client.ts';
import { startPlanes } from './planes.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import type { CallOutcome } from '../../src/protocol/queries/administration.ts';

test('each call reaches its group with its numbers', async (t) => {
  const { gateway, adminPort } = await startPlanes(t);
  gateway.script = (_asked, reply) => {
    QUERIES.admin.result.write(reply, { outcome: 'done', body: { raft_group_id: 3 } });
  };
  const cases: readonly (readonly [path: string, asked: AdminRequest])[] = [
    ['3/snapshot', { call: 'snapshot' }],
    ['3/purge', { call: 'purge', upTo: undefined }],
    ['3/purge?upto=0', { call: 'purge', upTo: 0 }],
    ['3/purge?upto=9007199254740991', { call: 'purge', upTo: Number.MAX_SAFE_INTEGER }],
    ['3/learners/4', { call: 'learner', node: 4, address: '' }],
    ['3/learners/4?addr=10.0.0.4:4440', { call: 'learner', node: 4, address: '10.0.0.4:4440' }],
    ['3/learners/4?addr=%20http://n4.example:4440/%20', { call: 'learner', node: 4, address: 'n4.example:4440' }],
    ['3/learners/4?addr=[::1]:4440', { call: 'learner', node: 4, address: '[::1]:4440' }],
    // The address in raft.peers goes along, for nodes whose file does not have it.
    ['3/learners/2', { call: 'learner', node: 2, address: '127.0.0.1:6250' }],
    ['3/learners/2?addr=127.0.0.1:6250', { call: 'learner', node: 2, address: '127.0.0.1:6250' }],
    ['3/learners/2?addr=http%3A%2F%2F127.0.0.1:6250/', { call: 'learner', node: 2, address: '127.0.0.1:6250' }],
    ['3/leader/transfer/4294967295', { call: 'transfer', node: 4294967295 }],
    ['3/nodes/2/allow-next-revert', { call: 'allow-revert', node: 2 }],
    ['3/membership?voters=1,2,3', { call: 'membership', voters: [1, 2, 3] }],
    ['3/membership?voters=10%2C2%2C10,%201&unknown=x', { call: 'membership', voters: [1, 2, 10] }],
    ['%33/membership?voters=1', { call: 'membership', voters: [1] }],
  ];
  for (const [path, asked] of cases) {
    const response = await requestOnce(adminPort, 'POST', `/__svc/raft/${path}`);
    assert.deepEqual(
      [response.status, response.headers.get('content-type'), response.body.toString()],
      [200, 'application/json', '{"raft_group_id":3}'],
      path,
    );
    const { last } = gateway;
    assert.deepEqual([last.op, last.group], [QUERIES.admin.number, 3], path);
    assert.deepEqual(QUERIES.admin.request.read(last.query), asked, path);
  }
});

test('a learner is taken out with DELETE, for which its address does not matter', async (t) => {
  const { gateway, adminPort } = await startPlanes(t);
  gateway.script = (_asked, reply) => {
    QUERIES.admin.result.write(reply, { outcome: 'done', body: '' });
  };
  for (const path of ['3/learners/4', '3/learners/4?addr=', '3/learners/2']) {
    assert.equal((await requestOnce(adminPort, 'DELETE', `/__svc/raft/${path}`)).status, 200, path);
    const { last } = gateway;
    const node = Number(path[11]);
    assert.deepEqual([last.op, last.group], [QUERIES.admin.number, 3], path);
    assert.deepEqual(QUERIES.admin.request.read(last.query), { call: 'forget-learner', node }, path);
  }
  assert.equal((await requestOnce(adminPort, 'DELETE', '/__svc/raft/3/learners/0')).status, 400);
  const other = await requestOnce(adminPort, 'PUT', '/__svc/raft/3/learners/4');
  assert.deepEqual([other.status, other.headers.get('allow')], [405, 'POST, DELETE']);
});

test('what cannot mean anything is refused with a sentence, and no shard is asked', async (t) => {
  const { gateway, adminPort } = await startPlanes(t);
  const cases: readonly (readonly [path: string, sentence: RegExp])[] = [
    ['x/snapshot', /^the group must be decimal digits\n$/],
    ['-1/snapshot', /^the group must be decimal digits\n$/],
    ['1.0/snapshot', /^the group must be/],
    ['/snapshot', /^the group must be/],
    ['%zz/snapshot', /^the group must be/],
    ['4294967296/snapshot', /^the group must be from 0 to 4294967295\n$/],
    ['99999999999/purge', /^the group must be from 0 to 4294967295\n$/],
    ['4/membership', /^voters is required: /],
    ['99999999999999999999/purge', /^the group is out of range/],
    ['0/purge?upto=', /^upto must be decimal digits\n$/],
    ['0/purge?upto=ten', /^upto must be decimal digits\n$/],
    ['0/purge?upto=-1', /^upto must be decimal digits\n$/],
    ['0/purge?upto=9007199254740992', /^upto is out of range/],
    ['0/purge?upto=%ff', /^the percent-encoding of upto is malformed/],
    ['0/learners/two', /^the node must be decimal digits\n$/],
    ['0/learners/0', /^the node must be from 1 to 4294967295\n$/],
    ['0/learners/', /^the node must be/],
    ['0/learners/2?addr=', /^addr is blank/],
    ['0/learners/2?addr=%20', /^addr is blank/],
    ['0/learners/4?addr=', /^addr is blank/],
    ['0/learners/4?addr=n4.example', /^addr must be HOST:PORT/],
    ['0/learners/4?addr=n4.example:0', /^addr must be HOST:PORT/],
    ['0/learners/4?addr=n4.example:99999', /^addr must be HOST:PORT/],
    [`0/learners/4?addr=${'n'.repeat(300)}:1`, /^addr must be HOST:PORT/],
    [
      '0/learners/2?addr=10.0.0.2:1',
      /^raft\.peers of this node has 127\.0\.0\.1:6250 for node 2; addr cannot change that\n$/,
    ],
    ['0/leader/transfer/4294967296', /^the node must be from 1 to 4294967295\n$/],
    ['0/leader/transfer/me', /^the node must be/],
    ['0/nodes/x/allow-next-revert', /^the node must be/],
    ['0/membership', /^voters is required: /],
    ['0/membership?voters', /^voters is required: /],
    ['0/membership?voters=', /^voters is required: /],
    ['0/membership?voters=%20', /^voters is required: /],
    // Otherwise the last one would be the whole set.
    ['0/membership?voters=1&voters=2&voters=3', /^voters is given more than once\n$/],
    ['0/purge?upto=1&upto=2', /^upto is given more than once\n$/],
    ['x/membership', /^voters is required: /],
    ['0/membership?voters=1,,3', /^voters holds an empty element\n$/],
    ['0/membership?voters=1,2,', /^voters holds an empty element\n$/],
    ['0/membership?voters=1,two', /^the voter "two" must be decimal digits\n$/],
    ['0/membership?voters=0,1', /^the voter "0" must be from 1 to 4294967295\n$/],
  ];
  for (const [path, sentence] of cases) {
    const response = await requestOnce(adminPort, 'POST', `/__svc/raft/${path}`);
    assert.deepEqual([response.status, response.headers.get('content-type')], [400, 'text/plain; charset=utf-8'], path);
    assert.match(response.body.toString(), sentence, path);
  }
  assert.equal(gateway.asked.length, 0);
});

test('a group that no node has is not found, in a sentence', async (t) => {
  const { gateway, adminPort } = await startPlanes(t);
  const calls = [
    '4/snapshot',
    '4294967295/purge',
    '99/membership?voters=1',
    '4/leader/transfer/2',
    '4/nodes/2/allow-next-revert',
    '4/learners/2',
  ];
  for (const path of calls) {
    const response = await requestOnce(adminPort, 'POST', `/__svc/raft/${path}`);
    assert.deepEqual([response.status, response.headers.get('content-type')], [404, 'text/plain; charset=utf-8'], path);
    const group = Number.parseInt(path, 10);
    assert.equal(response.body.toString(), `group ${group} does not exist; groups are 0 to 3\n`);
  }
  assert.equal((await requestOnce(adminPort, 'DELETE', '/__svc/raft/4/learners/2')).status, 404);
  assert.equal(gateway.asked.length, 0);
});

test('other methods, other paths, and the client plane', async (t) => {
  const { gateway, adminPort, port } = await startPlanes(t);
  for (const path of ['0/snapshot', '0/membership', '0/leader/transfer/2', '99/purge']) {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const response = await requestOnce(adminPort, method, `/__svc/raft/${path}`);
      assert.deepEqual([response.status, response.headers.get('allow')], [405, 'POST'], `${method} ${path}`);
    }
  }
  for (const path of [
    '',
    '0',
    '0/',
    '0/nothing',
    '0/leader/2',
    '0/nodes/2',
    '0/snapshot/1',
    '0/nodes/2/allow-next-revert/x',
  ]) {
    assert.equal((await requestOnce(adminPort, 'POST', `/__svc/raft/${path}`)).status, 404, path);
  }
  assert.equal((await requestOnce(port, 'POST', '/__svc/raft/0/snapshot')).status, 404, 'operators only');
  assert.equal(gateway.asked.length, 0);
});

test('the answer of the shard is passed on as it is', async (t) => {
  const { gateway, admin } = await startPlanes(t);
  const path = `${admin}/__svc/raft/1/leader/transfer/2`;
  const statuses: readonly (readonly [CallOutcome, number])[] = [
    ...([
      ['done', 200],
      ['invalid', 400],
      ['not-found', 404],
      ['refused', 409],
      ['declined', 409],
    ] as const),
    ...([
      ['failed', 500],
      ['store-failed', 502],
      ['retry', 503],
      ['disk-full', 507],
    ] as const),
  ];
  for (const [outcome, status] of statuses) {
    const isJson = status === 200 || status === 409;
    gateway.script = (_asked, reply) => {
      const body = isJson ? { transferred: false, reason: 'not leader' } : 'a sentence\n';
      QUERIES.admin.result.write(reply, { outcome, body });
    };
    const response = await fetch(path, { method: 'POST', body: 'ignored' });
    assert.equal(response.status, status);
    assert.equal(response.headers.get('content-type'), isJson ? 'application/json' : 'text/plain; charset=utf-8');
    assert.equal(response.headers.get('retry-after'), status === 503 || status === 507 ? '1' : null);
    assert.equal(await response.text(), isJson ? '{"transferred":false,"reason":"not leader"}' : 'a sentence\n');
  }
  gateway.script = (_asked, reply) => {
    reply.code = errorNumber('STOPPING');
  };
  assert.equal((await fetch(path, { method: 'POST' })).status, 503);
  gateway.full = true;
  const busy = await fetch(path, { method: 'POST' });
  assert.deepEqual([busy.status, busy.headers.get('retry-after')], [503, '1']);
});

test('a call that has to wait is answered when the shard answers; one whose caller left is forgotten', async (t) => {
  const { gateway, admin, planes } = await startPlanes(t);
  gateway.script = () => false;
  const arrived = gateway.nextRequest();
  const waiting = fetch(`${admin}/__svc/raft/1/learners/2`, { method: 'POST' });
  await arrived;
  const controller = new AbortController();
  const second = gateway.nextRequest();
  const leaving = fetch(`${admin}/__svc/raft/1/learners/2`, { method: 'POST', signal: controller.signal });
  await second;
  controller.abort();
  await assert.rejects(leaving);
  assert.equal(planes.openRequests(), 2);
  gateway.release((_asked, reply) => {
    QUERIES.admin.result.write(reply, { outcome: 'retry', body: 'node 2 has not caught up yet\n' });
  });
  const answer = await waiting;
  assert.deepEqual([answer.status, await answer.text()], [503, 'node 2 has not caught up yet\n']);
  assert.equal(planes.openRequests(), 0);
});

test('the admin token guards the calls', async (t) => {
  const { gateway, admin } = await startPlanes(t, { adminToken: 'secret' });
  for (const path of ['raft/0/snapshot', 'leadership-shed/maintenance']) {
    assert.equal((await fetch(`${admin}/__svc/${path}`, { method: 'POST' })).status, 401, path);
  }
  assert.equal(gateway.asked.length, 0);
});
