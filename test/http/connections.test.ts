// Bounds on connections over real sockets: one too many is closed, the others go on, and there is room again when one
// leaves.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ADMIN_CONNECTIONS_MAX, ADMIN_CONNECTIONS_PER_ADDRESS_MAX } from '../../src/access/connections.ts';
import { ConnectionLost, RawClient } from '../support/raw-client.ts';
import { until } from '../support/until.ts';
import { newConnections } from './new-connections.ts';
import { startPlanes } from './planes.ts';

async function openMany(t: TestContext, port: number, count: number, from?: string): Promise<RawClient[]> {
  const clients: RawClient[] = [];
  for (let i = 0; i < count; i++) {
    const client = await RawClient.connect(port, '127.0.0.1', from);
    t.after(() => client.destroy());
    clients.push(client);
  }
  return clients;
}

/** The server has seen as many as these when it has answered the last one. */
async function serves(client: RawClient): Promise<void> {
  assert.equal((await client.request('GET', '/nowhere/a/b/c')).status, 404);
}

for (const [what, bounds, counter] of [
  ['in all', { all: 5, perAddress: 5 }, 'http_connections_refused'],
  ['from one address', { all: 100, perAddress: 5 }, 'http_connections_refused_per_address'],
] as const) {
  test(`connections beyond the bound ${what} are closed, and the first ones go on`, async (t) => {
    const lines: Readonly<Record<string, unknown>>[] = [];
    const connections = newConnections(bounds, (fields) => lines.push(fields));
    const rig = await startPlanes(t, { connections });
    const clients = await openMany(t, rig.port, 5);
    for (const client of clients) await serves(client);
    const late = await openMany(t, rig.port, 3);
    await Promise.all(late.map(({ closed }) => closed));
    for (const client of clients) await serves(client);
    const shown = connections.metrics();
    assert.deepEqual([shown['http_connections'], shown[counter]], [5, 3]);
    assert.equal(lines.length, 1, 'one line for all of them');
    assert.deepEqual(
      [lines[0]?.['limit'], lines[0]?.['plane'], lines[0]?.['last_address']],
      [5, 'client', '127.0.0.1'],
    );
    const [first] = clients as [RawClient];
    first.destroy();
    await once(first.socket, 'close');
    while (connections.client.open > 4) await nextTurn();
    // Those of one address are counted in the kernel's table, where the closed one may stay for a moment.
    await until('there is room again', async () => {
      const [next] = await openMany(t, rig.port, 1);
      return await serves(next as RawClient).then(
        () => true,
        (error: unknown) => {
          if (error instanceof ConnectionLost) return false;
          throw error;
        },
      );
    });
  });
}

test('the admin plane has room of its own, and no address takes more than half of it', async (t) => {
  const lines: Readonly<Record<string, unknown>>[] = [];
  const connections = newConnections({ all: 1, perAddress: 1 }, (fields) => lines.push(fields));
  const rig = await startPlanes(t, { connections });
  const [client] = await openMany(t, rig.port, 1);
  await serves(client as RawClient);
  const half = ADMIN_CONNECTIONS_PER_ADDRESS_MAX;
  const greedy = await openMany(t, rig.adminPort, half + 1, '127.0.0.2');
  await greedy.pop()?.closed;
  const operators = await openMany(t, rig.adminPort, ADMIN_CONNECTIONS_MAX - half, '127.0.0.3');
  for (const one of [...greedy, ...operators]) assert.equal((await one.request('GET', '/__svc/health')).status, 200);
  const [late] = await openMany(t, rig.adminPort, 1, '127.0.0.4');
  await (late as RawClient).closed;
  const shown = connections.metrics();
  assert.deepEqual([shown['admin_connections'], shown['admin_connections_refused']], [ADMIN_CONNECTIONS_MAX, 2]);
  // No setting bounds it, so the line names none.
  assert.deepEqual([lines[0]?.['plane'], lines[0]?.['limit'], lines[0]?.['bound']], ['admin', half, undefined]);
});
