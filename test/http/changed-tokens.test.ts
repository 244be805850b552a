// The token with all rights is another one: who reads with the one before is told so at once, on both planes, and who
// has another token reads on.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { RawClient, type RawResponse } from '../support/raw-client.ts';
import { bearer, bookOf, listed, scopeOf, withRole } from '../support/scoped-tokens.ts';
import { until } from '../support/until.ts';
import { SessionClient } from '../session/client.ts';
import { startPlanes } from './planes.ts';

const [CLIENT, ADMIN] = ['client-secret-0123456789abcdef0123', 'admin-secret-0123456789abcdef01234'];
const KINDS = ['sse', 'long-poll'] as const;

test('live readers and sessions end with the token of their plane, and those of other tokens go on', async (t) => {
  const clientTokens = bookOf([listed('till', [scopeOf('b', '*', 'read')])]);
  const adminTokens = bookOf([withRole('operator', 'operate')]);
  const settings = { clientToken: CLIENT, adminToken: ADMIN, clientTokens, adminTokens, longPollTimeoutMs: 60_000 };
  const rig = await startPlanes(t, settings);
  rig.gateway.script = () => false;
  const { live } = rig.counters;
  const ending: Promise<RawResponse>[] = [];
  for (const [port, path, token, other] of [
    [rig.port, '/b/s', CLIENT, 'till'],
    [rig.adminPort, '/__svc/streams/b/s', ADMIN, 'operator'],
  ] as const) {
    for (const kind of KINDS) {
      const target = `${path}?offset=now&live=${kind}`;
      ending.push((await connected(t, port)).request('GET', target, { Authorization: `Bearer ${token}` }));
      const kept = (await connected(t, port)).request('GET', target, bearer(other));
      kept.catch(() => undefined);
    }
  }
  await until('all read', () => live.sseReaders === 4 && live.longPolls === 4);
  const session = async (authorization: string): Promise<SessionClient> => {
    const client = await SessionClient.connect(rig.port, { headers: [`Authorization: ${authorization}`] });
    t.after(() => client.destroy());
    return client;
  };
  const [ends, goesOn] = [await session(`Bearer ${CLIENT}`), await session(bearer('till').Authorization)];

  rig.planes.changeTokens({ client: CLIENT, admin: ADMIN });
  assert.deepEqual([live.sseReaders, live.longPolls], [4, 4], 'the same tokens as before');
  const another = (token: string): string => token.replace('secret', 'second');
  rig.planes.changeTokens({ client: another(CLIENT), admin: another(ADMIN) });
  for (const { status, headers } of await Promise.all(ending))
    assert.deepEqual([status, headers.get('millrace-error')], [401, 'UNAUTHORIZED']);
  assert.equal(await ends.ended(), 1001);
  assert.deepEqual([live.sseReaders, live.longPolls, rig.counters.sessions.open], [2, 2, 1]);
  goesOn.destroy();
});

async function connected(t: TestContext, port: number): Promise<RawClient> {
  const client = await RawClient.connect(port);
  t.after(() => client.destroy());
  return client;
}
