// A path that spells a route's pattern, braces and all: it means what it says, and never what the request before named.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ADMIN_ROWS, CLIENT_ROWS, type RouteRow } from '../../src/http/routes/table.ts';
import { RawClient } from '../support/raw-client.ts';
import { type Rig, startPlanes } from './planes.ts';

const TYPE = { 'Content-Type': 'application/json' };

interface Asked {
  readonly row: RouteRow;
  readonly method: string;
}

function withVariables(rows: readonly RouteRow[]): Asked[] {
  return rows
    .filter(({ pattern }) => pattern.includes('{'))
    .flatMap((row) => row.methods.map((method) => ({ row, method: method === '*' ? 'POST' : method })));
}

async function connected(t: TestContext, port: number): Promise<RawClient> {
  const client = await RawClient.connect(port);
  t.after(() => client.destroy());
  return client;
}

/** Their contexts serve the next request. */
async function nameOthers(client: RawClient, prefix: string): Promise<void> {
  await client.request('GET', '/__svc/raft/1/nodes/2/allow-next-revert', TYPE);
  assert.equal((await client.request('HEAD', `${prefix}/shop/orders`, TYPE)).status, 200);
}

async function checkRows(rig: Rig, client: RawClient, prefix: string, asked: readonly Asked[]): Promise<void> {
  for (const { row, method } of asked) {
    const what = `${method} ${row.pattern}`;
    await nameOthers(client, prefix);
    rig.gateway.asked.length = 0;
    const { status, body } = await client.request(method, row.pattern, TYPE);
    assert(status < 500, `${what}: ${status}`);
    assert(!body.toString().includes('shop'), what);
    for (const { bucket, stream } of rig.gateway.asked) assert(bucket !== 'shop' && stream !== 'orders', what);
    // A group or an id in braces is none.
    if (!row.pattern.includes('{bucket}')) assert.deepEqual(rig.gateway.asked, [], what);
  }
}

test('no route of operators takes a pattern for what an earlier request named', async (t) => {
  const rig = await startPlanes(t);
  const asked = withVariables(ADMIN_ROWS);
  assert(asked.length > 20, `${asked.length} requests`);
  await checkRows(rig, await connected(t, rig.adminPort), '/__svc/streams', asked);
});

test('nor does one of clients', async (t) => {
  const rig = await startPlanes(t);
  const asked = withVariables(CLIENT_ROWS);
  assert(asked.length > 20, `${asked.length} requests`);
  await checkRows(rig, await connected(t, rig.port), '', asked);
});
