// The leadership-shed routes: exactly the objects that scripts rely on, idempotent changes, and what is said when one
// fails.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MillraceError } from '../../src/base/errors.ts';
import { startPlanes } from './planes.ts';

const NORMAL =
  '{"bits":0,"state":"none","should_accept_transfer":true,"should_campaign":true,"should_shed_current_leaders":false}';
const DRAINING =
  '{"bits":1,"state":"maintenance-drain","should_accept_transfer":false,"should_campaign":false,"should_shed_current_leaders":true}';

test('the mark is set and lifted, each as often as one likes', async (t) => {
  const { admin, client } = await startPlanes(t);
  const call = async (method: string, path = '/maintenance'): Promise<readonly [number, string]> => {
    const response = await fetch(`${admin}/__svc/leadership-shed${path}`, { method });
    return [response.status, await response.text()];
  };
  assert.deepEqual(await call('GET', ''), [200, NORMAL]);
  assert.deepEqual(await call('DELETE'), [200, NORMAL]);
  for (let times = 0; times < 2; times++) assert.deepEqual(await call('POST'), [200, DRAINING]);
  assert.deepEqual(await call('GET', ''), [200, DRAINING]);
  for (let times = 0; times < 2; times++) assert.deepEqual(await call('DELETE'), [200, NORMAL]);
  assert.deepEqual(await call('GET', ''), [200, NORMAL]);
  const head = await fetch(`${admin}/__svc/leadership-shed`, { method: 'HEAD' });
  assert.deepEqual([head.status, head.headers.get('content-type')], [200, 'application/json']);
  const wrong = await fetch(`${admin}/__svc/leadership-shed/maintenance`, { method: 'PUT' });
  assert.deepEqual([wrong.status, wrong.headers.get('allow')], [405, 'POST, DELETE, OPTIONS']);
  assert.equal((await fetch(`${client}/__svc/leadership-shed/maintenance`, { method: 'POST' })).status, 404);
});

test('reasons add up, and the mark comes and goes beside another one', async (t) => {
  const { admin, drainMark } = await startPlanes(t);
  drainMark.otherBits = 2;
  const state = async (method: string, path: string): Promise<unknown[]> => {
    const response = await fetch(`${admin}/__svc/leadership-shed${path}`, { method });
    return Object.values((await response.json()) as Record<string, unknown>);
  };
  assert.deepEqual(await state('GET', ''), [2, 'cluster-egress', false, false, true]);
  assert.deepEqual(await state('POST', '/maintenance'), [3, 'cluster-egress|maintenance-drain', false, false, true]);
  assert.deepEqual(await state('DELETE', '/maintenance'), [2, 'cluster-egress', false, false, true]);
});

test('without a cluster plane its routes are on the client plane, and only then', async (t) => {
  const single = await startPlanes(t, {}, false);
  const answer = await fetch(`${single.client}/__svc/leadership-shed`);
  assert.deepEqual([answer.status, await answer.text()], [200, NORMAL]);
  assert.equal((await fetch(`${single.client}/__svc/leadership-shed`, { method: 'POST' })).status, 405);
  const member = await startPlanes(t);
  assert.equal((await fetch(`${member.client}/__svc/leadership-shed`)).status, 404);
});

test('a change that fails says why', async (t) => {
  const { admin, drainMark, errors } = await startPlanes(t);
  const path = `${admin}/__svc/leadership-shed/maintenance`;
  drainMark.failure = new MillraceError('DISK_FULL');
  assert.equal((await fetch(path, { method: 'POST' })).status, 507);
  drainMark.failure = new MillraceError('SHARD_BUSY');
  const busy = await fetch(path, { method: 'POST' });
  assert.deepEqual([busy.status, busy.headers.get('retry-after')], [503, '1']);
  assert.deepEqual(errors, []);
  drainMark.failure = new Error('EIO');
  assert.equal((await fetch(path, { method: 'DELETE' })).status, 500);
  assert.equal(errors.splice(0).length, 1);
});
