// A server that publishes keys and is down, slow, huge, wrong or changing: the keys before stay in force.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { type RequestListener, createServer } from 'node:http';
import { type TestContext, test } from 'node:test';
import { KEYS_KEPT_MS, KeyServer } from '../../src/server/key-server.ts';
import { JWKS_BYTES_MAX } from '../../src/base/limits.ts';
import { FakeRuntime } from '../support/fake-runtime.ts';
import { until } from '../support/until.ts';

const MINUTE_MS = 60_000;

function setOf(...ids: readonly string[]): string {
  const jwk = (kid: string): object => ({ ...generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }), kid });
  return JSON.stringify({ keys: ids.map(jwk) });
}

interface Rig {
  readonly keys: KeyServer;
  readonly runtime: FakeRuntime;
  /** The ids of the keys that were in force, one after the other. */
  readonly told: (readonly (string | undefined)[])[];
  readonly said: string[];
  /** How the server answers from now on. */
  answer: RequestListener;
  asked: number;
  /** Waits for the end of what was begun, and of `count` more requests. */
  answered(count: number): Promise<void>;
}

async function rig(t: TestContext): Promise<Rig> {
  const runtime = new FakeRuntime();
  const server = createServer((request, response) => {
    made.asked++;
    made.answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert(address !== null && typeof address === 'object');
  const keys = new KeyServer({
    url: `http://127.0.0.1:${address.port}/keys`,
    runtime,
    log: (level, fields, sentence) => said.push(`${level} ${sentence} ${JSON.stringify(fields)}`),
    changed: (now) => told.push(now.map(({ id }) => id)),
  });
  const told: Rig['told'] = [];
  const said: string[] = [];
  const made: Rig = {
    ...{ keys, runtime, told, said, asked: 0 },
    answer: (_, response) => response.end(setOf('a')),
    async answered(count) {
      const { fetched, failed } = keys.counters;
      const ended = fetched + failed + count;
      await until('the answers', () => keys.counters.fetched + keys.counters.failed >= ended);
    },
  };
  t.after(() => {
    keys.stop();
    server.closeAllConnections();
    server.close();
  });
  return made;
}

/** Time goes on until the next request, and that is over. */
async function next(made: Rig, ms: number): Promise<void> {
  const answered = made.answered(1);
  await made.runtime.pass(ms);
  await answered;
}

test('keys are fetched at the start and every few minutes, and told when they change', async (t) => {
  const made = await rig(t);
  const same = setOf('a', 'b');
  made.answer = (_, response) => response.end(same);
  await made.keys.start();
  await next(made, 5 * MINUTE_MS);
  assert.deepEqual(made.told, [['a', 'b']]);
  made.answer = (_, response) => response.end(setOf('c'));
  await next(made, 5 * MINUTE_MS);
  assert.deepEqual(made.told, [['a', 'b'], ['c']]);
  assert.deepEqual(made.keys.counters, { fetched: 3, failed: 0, keys: 1 });
});

const FAILURES: Readonly<Record<string, readonly [answer: RequestListener, reason: RegExp]>> = {
  'says 500': [(_, response) => response.writeHead(500).end('no'), /it answered 500/],
  'says 204': [(_, response) => response.writeHead(204).end(), /it answered 204/],
  redirects: [(_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(), /redirect/],
  'hangs up': [(request) => request.socket.destroy(), /other side closed|ECONNRESET|socket/],
  'says what is no JSON': [(_, response) => response.end('<html>'), /is no JSON/],
  'says what is no set': [(_, response) => response.end('{"keys": 1}'), /neither a JWK nor a set/],
  'says too much': [(_, response) => response.end(' '.repeat(JWKS_BYTES_MAX + 1)), /longer than 262144 bytes/],
  'ends in the middle': [
    (_, response) => {
      response.writeHead(200, { 'content-length': '1000' });
      response.write('{"keys"', () => response.destroy());
    },
    /./,
  ],
};

test('a server that fails in any way leaves the last keys in force, and is told of once', async (t) => {
  const made = await rig(t);
  await made.keys.start();
  for (const [what, [answer, reason]] of Object.entries(FAILURES)) {
    made.answer = answer;
    const [before] = [made.said.length];
    await next(made, 5 * MINUTE_MS);
    await next(made, MINUTE_MS);
    const said = made.said.slice(before);
    assert.equal(said.length, 1, `${what}: ${said.join('\n')}`);
    assert.match(
      said[0] ?? '',
      /^warn the key server gives no keys; until it does, its last keys stay in force for a day/,
    );
    assert.match(said[0] ?? '', reason, what);
  }
  assert.deepEqual(made.told, [['a']]);
  made.answer = (_, response) => response.end(setOf('b'));
  await next(made, MINUTE_MS);
  assert.deepEqual(made.told, [['a'], ['b']]);
  assert.match(made.said.at(-2) ?? '', /^info the key server answers again/);
});

test('an issuer that withdraws its last key is believed, and one that only shuffles its keys changes nothing', async (t) => {
  const made = await rig(t);
  const both = JSON.parse(setOf('a', 'b')) as { readonly keys: readonly object[] };
  made.answer = (_, response) => response.end(JSON.stringify(both));
  await made.keys.start();
  made.answer = (_, response) => response.end(JSON.stringify({ at: 1, keys: both.keys.toReversed() }));
  await next(made, 5 * MINUTE_MS);
  assert.equal(made.told.length, 1);
  for (const keys of [[], [{ kty: 'oct', k: 'AA' }]]) {
    made.answer = (_, response) => response.end(JSON.stringify({ keys }));
    await next(made, 5 * MINUTE_MS);
  }
  assert.deepEqual(made.told, [['a', 'b'], []]);
  assert.match(made.said.at(-1) ?? '', /^error the key server vouches for no key that can be used/);
  assert.equal(made.keys.counters.keys, 0);
});

test('a server that stays silent is given up on, and asked again', async (t) => {
  const made = await rig(t);
  made.answer = () => undefined;
  // A node waits for it before it serves clients.
  await made.keys.start();
  assert.match(made.said[0] ?? '', /^warn .*tokens that it vouches for are refused .*timeout/);
  assert(made.keys.isAway);
  made.answer = (_, response) => response.end(setOf('a'));
  await next(made, MINUTE_MS);
  assert.deepEqual(made.told, [['a']]);
  assert(!made.keys.isAway);
});

test('keys are used for a day without an answer', async (t) => {
  const made = await rig(t);
  await made.keys.start();
  made.answer = (_, response) => response.writeHead(503).end();
  await next(made, 5 * MINUTE_MS);
  made.runtime.skip(KEYS_KEPT_MS - 10 * MINUTE_MS);
  await next(made, MINUTE_MS);
  assert.equal(made.told.length, 1);
  assert(!made.keys.isAway);
  made.runtime.skip(10 * MINUTE_MS);
  await next(made, MINUTE_MS);
  assert.deepEqual(made.told, [['a'], []]);
  assert.match(made.said.at(-1) ?? '', /^error the key server has not answered for a day/);
  assert(made.keys.isAway);
  assert.equal(made.keys.counters.keys, 0);
});

test('tokens with unknown keys ask for new ones, however many come', async (t) => {
  const made = await rig(t);
  await made.keys.start();
  for (let i = 0; i < 1000; i++) made.keys.missed();
  assert.equal(made.asked, 1);
  made.runtime.skip(30_000);
  const answered = made.answered(1);
  assert(!made.keys.isAway);
  for (let i = 0; i < 1000; i++) made.keys.missed();
  // A token with a new key is not wrong before it has answered.
  assert(made.keys.isAway);
  await answered;
  assert.equal(made.asked, 2);
  assert(!made.keys.isAway);
});
