// Live readers of tokens with scopes and no limit of them: none takes the room of all others.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { LimitBook } from '../../src/access/limit-book.ts';
import { RequestMeters } from '../../src/access/request-meters.ts';
import type { Grant } from '../../src/access/scopes.ts';
import { NO_LIMITS, type UseLimits } from '../../src/base/use-limits.ts';
import { RawClient } from '../support/raw-client.ts';
import { bearer, bookOf, listed, scopeOf } from '../support/scoped-tokens.ts';
import { until } from '../support/until.ts';
import { REFUSED, SUBSCRIBE, SessionClient } from '../session/client.ts';
import { type Rig, startPlanes } from './planes.ts';

const ROOT = 'a-token-with-all-rights-0123456789';
/** Live readers for each of the two shards. */
const PER_CORE = 4;

interface Shared extends Rig {
  readonly book: LimitBook;
  /** The client of a live read that was let in; undefined: it was refused with `code`. */
  read(token: string, code?: string): Promise<RawClient>;
  count(): number;
}

async function start(t: TestContext, limits: readonly (readonly [string, UseLimits])[] = []): Promise<Shared> {
  const book = new LimitBook({ node: NO_LIMITS, tokens: limits });
  const tokens = ['a', 'b', 'own'].map((id) => listed(id, [scopeOf('shop', '*', 'read')]));
  const settings = { clientToken: ROOT, clientTokens: bookOf(tokens), watchersPerCoreMax: PER_CORE, limits: book };
  const rig = await startPlanes(t, settings);
  rig.gateway.script = () => false;
  const { live } = rig.counters;
  const count = (): number => live.sseReaders + live.longPolls + live.subscriptions;
  let asked = 0;
  const read = async (token: string, code?: string): Promise<RawClient> => {
    const client = await RawClient.connect(rig.port);
    t.after(() => client.destroy());
    const before = count();
    const kind = asked++ % 2 === 0 ? 'sse' : 'long-poll';
    const authorization = token === 'root' ? { Authorization: `Bearer ${ROOT}` } : bearer(token);
    const answer = client.request('GET', `/shop/s?offset=now&live=${kind}`, authorization);
    answer.catch(() => undefined);
    if (code === undefined) await until(`${token} reads`, () => count() === before + 1);
    else assert.equal((await answer).headers.get('millrace-error'), code);
    return client;
  };
  return { ...rig, book, read, count };
}

test('a token holds no more live readers than are free, of whatever kind, and places come back', async (t) => {
  const { port, book, read, count } = await start(t);
  const session = await SessionClient.connect(port, { headers: [`Authorization: ${bearer('a').Authorization}`] });
  t.after(() => session.destroy());
  const ofA = [await read('a'), await read('a')];
  for (const id of [1, 2]) session.send([SUBSCRIBE, id, 'shop', `s${id}`, 1000, { offset: 0 }]);
  await until('four read', () => count() === 4);
  const refused = await session.ask(SUBSCRIBE, 3, 'shop', 's3', 1000, { offset: 0 });
  assert.deepEqual([refused.kind, refused.code], [REFUSED, 'READERS_LIMITED']);
  assert.match(refused.sentence, /the token has 4 of this node, and 4 are free/);
  await read('a', 'READERS_LIMITED');
  const ofB = [await read('b'), await read('b')];
  await read('b', 'READERS_LIMITED');
  const ofRoot = [await read('root'), await read('root')];
  await read('root', 'WATCHERS_FULL');
  assert.equal(book.readers.size, 2);

  session.destroy();
  ofA[0]?.destroy();
  await until('three have left', () => count() === 5);
  ofB.push(await read('b'));
  await read('b', 'READERS_LIMITED');
  for (const client of [...ofA, ...ofB, ...ofRoot]) client.destroy();
  await until('all have left', () => count() === 0);
  assert.equal(book.readers.size, 0, 'nothing is kept of them');
});

test('a limit of its own stands in place of the share', async (t) => {
  const { read } = await start(t, [['own', { live_readers: 2 * PER_CORE - 1 }]]);
  for (let i = 0; i < 2 * PER_CORE - 1; i++) await read('own');
  await read('own', 'READERS_LIMITED');
  await read('a');
  await read('a', 'WATCHERS_FULL');
});

test('many tokens have equal shares, and those made from another one have its share', () => {
  const book = new LimitBook();
  const room = 300;
  let taken = 0;
  book.readers.free = () => room - taken;
  const grant = (id: string, account = id): Grant => ({ id, account, expiresAtMs: Infinity, scopes: [] });
  const add = (one: Grant): RequestMeters | undefined => {
    const meters = new RequestMeters(book);
    meters.follow(one, '');
    if (meters.addReader() !== undefined) return undefined;
    taken++;
    return meters;
  };
  const [a, child, b] = [grant('a'), grant('child', 'a'), grant('b')];
  const held = new Map([a, child, b].map((one) => [one.id, 0]));
  for (let i = 0; i < room; i++)
    for (const one of [i % 2 === 0 ? a : child, b])
      if (add(one) !== undefined) held.set(one.id, (held.get(one.id) ?? 0) + 1);
  const [ofA = 0, ofChild = 0, ofB = 0] = held.values();
  assert(Math.abs(ofA + ofChild - 100) <= 1 && Math.abs(ofB - 100) <= 1, `${ofA} and ${ofChild}, ${ofB}`);
  const late = add(grant('late'));
  assert(late !== undefined, 'a newcomer finds room');
  late.removeReader();
  late.removeReader();
  assert.equal(book.readers.size, 2, 'a place is given back once');
});
