// The audit log of keys that a server publishes: a line for each that comes, changes or goes, by its id.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import type { AuditEntry } from '../../src/audit/entry.ts';
import { AuditTrail } from '../../src/audit/trail.ts';
import { ClientTokens } from '../../src/server/client-tokens.ts';
import { loggerTo, parseVerbosity } from '../../src/logging/logger.ts';
import { FakeRuntime } from '../support/fake-runtime.ts';
import { until } from '../support/until.ts';

const MINUTE_MS = 60_000;

function key(kid?: string): object {
  const jwk = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
  return kid === undefined ? jwk : { ...jwk, kid };
}

test('keys of a server leave lines when they come, change and go, and never what they are', async (t) => {
  const [a, b, nameless] = [key('a'), key('b'), key()];
  const { x } = b as { readonly x: string };
  let published: readonly object[] = [a, b];
  const server = createServer((_, response) => void response.end(JSON.stringify({ keys: published })));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert(address !== null && typeof address === 'object');
  const runtime = new FakeRuntime();
  const lines: AuditEntry[] = [];
  const trail = new AuditTrail({ runtime, write: (entry) => lines.push(entry) });
  const rules = { issuer: 'https://issuer.example', audience: 'millrace', clockSkewMs: 0 };
  const jwt = { ...rules, keys: [], keyServer: `http://127.0.0.1:${address.port}/` };
  const scoped = { list: { tokens: [], revoked: [] }, jwt, signingKeys: [] };
  const log = loggerTo({ write: () => undefined }, parseVerbosity(undefined), 'server');
  const tokens = new ClientTokens(
    { scoped, client: '' },
    { runtime, log, changed: () => undefined, tell: (change) => trail.changed(change) },
  );
  t.after(() => {
    tokens.stop();
    server.closeAllConnections();
    server.close();
  });
  const fetched = async (count: number): Promise<void> =>
    await until('the keys are there', () => tokens.metrics()['jwks_fetched'] === count);
  const told = (): string[] =>
    lines.splice(0).map(({ event, who, what, token }) => `${event} ${who}: ${what} ${token}`);

  await tokens.start();
  const of = 'tokens node: published key of the issuer';
  assert.deepEqual(told(), [`${of} added a`, `${of} added b`]);
  // The same in another order, another one with the id of a, and one without an id.
  for (const [keys, expected] of [
    [[b, a], []],
    [[b, key('a')], [`${of} changed a`]],
    [
      [b, nameless],
      [`${of} added 2`, `${of} removed a`],
    ],
    [[b, nameless, key('b')], [`${of} changed b`]],
    [[], [`${of} removed b`, `${of} removed 2`]],
  ] as const) {
    published = keys;
    const count = (tokens.metrics()['jwks_fetched'] ?? 0) + 1;
    await runtime.pass(5 * MINUTE_MS);
    await fetched(count);
    assert(!JSON.stringify(lines).includes(x));
    assert.deepEqual(told(), expected);
  }
});
