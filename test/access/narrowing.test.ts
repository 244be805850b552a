// Narrower tokens: whatever a child allows its parent allows, at every moment, and it ends with every token above it.
import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { createSigner } from 'fast-jwt';
import { JwtTokens } from '../../src/access/jwt-tokens.ts';
import { NarrowedTokens, type SignedToken } from '../../src/access/narrowed-tokens.ts';
import { isWithin, narrowingFault, parseWish } from '../../src/access/narrowing.ts';
import {
  type Grant,
  coversAll,
  coversEverything,
  decide,
  decideBucket,
  excessOf,
  rangesOf,
} from '../../src/access/scopes.ts';
import type { ParentBook } from '../../src/access/token-book.ts';
import { type JwtKey, NODE_ISSUER, type NodeKey } from '../../src/base/jwt-key.ts';
import { NARROWED_DEPTH_MAX, NARROWED_SECONDS_MAX, URL_TOKEN_SECONDS_MAX } from '../../src/base/limits.ts';
import { SCOPED_OPERATIONS, type Scope, type ScopedOperation, parseScopes } from '../../src/base/scopes.ts';
import { type Random, createRandom, seedFromEnvironment } from '../support/random.ts';
import { bookOf, listed, scopeOf, textOf } from '../support/scoped-tokens.ts';

const NOW_MS = Date.UTC(2026, 10, 27);

function grant(...scopes: readonly Scope[]): Grant {
  return { id: 'test', expiresAtMs: Infinity, scopes };
}

const exactly = (bucket: string, stream: string, ...operations: readonly ScopedOperation[]): Scope => ({
  ...{ bucket, stream, operations },
});

const BUCKETS = ['a', 'b', '*'];
const NAMES = ['s', 's*', 'st', 'st*', 's**', '*', 'x'];

function drawnScope(random: Random, share: number): Scope {
  const operations = SCOPED_OPERATIONS.filter(() => random.chance(share));
  if (operations.length === 0) operations.push('read');
  const [bucket, name] = [random.pick(BUCKETS), random.pick(NAMES)];
  return random.chance(0.3) ? { bucket, stream: name, operations } : { bucket, streams: name, operations };
}

const drawn = (random: Random, share: number): Grant =>
  grant(...Array.from({ length: random.int(1, 3) }, () => drawnScope(random, share)));

test('what is no excess allows nothing that the parent does not, in every decision', () => {
  const seed = seedFromEnvironment();
  const random = createRandom(seed);
  let within = 0;
  for (let i = 0; i < 20_000; i++) {
    const [parent, child] = [drawn(random, 0.8), drawn(random, 0.2)];
    if (excessOf(parent.scopes, child.scopes) !== undefined) continue;
    within++;
    const what = `seed ${seed}: ${JSON.stringify([parent.scopes, child.scopes])}`;
    for (const operation of SCOPED_OPERATIONS) {
      for (const bucket of ['a', 'b', 'c', '*']) {
        for (const stream of [...NAMES, 'str', 's*t', 'other', ''])
          if (decide(child, operation, bucket, stream) === 'allowed')
            assert.equal(decide(parent, operation, bucket, stream), 'allowed', `${what} ${bucket}/${stream}`);
        if (decideBucket(child, operation, bucket) === 'allowed')
          assert.equal(decideBucket(parent, operation, bucket), 'allowed', what);
        for (const { prefix, isExact } of rangesOf(child, operation, bucket))
          assert(isExact || coversAll(parent, operation, bucket, prefix), what);
      }
      assert(!coversEverything(child, operation) || coversEverything(parent, operation), what);
    }
  }
  assert(within > 1000, String(within));
});

test('an exact name is one name, whatever it ends with', () => {
  const one = grant(exactly('shop', 'orders-*', 'read', 'list'));
  assert.equal(decide(one, 'read', 'shop', 'orders-*'), 'allowed');
  assert.equal(decide(one, 'read', 'shop', 'orders-1'), 'hidden');
  assert.deepEqual(rangesOf(one, 'list', 'shop'), [{ prefix: 'orders-*', isExact: true }]);
  assert.equal(decideBucket(grant(exactly('shop', '*', 'list')), 'list', 'shop'), 'denied');
  const wide = [scopeOf('shop', 'orders-*', 'read')];
  assert.equal(excessOf(wide, [exactly('shop', 'orders-*', 'read')]), undefined);
  assert.deepEqual(excessOf([exactly('shop', 'orders-*', 'read')], wide), { index: 0, operation: 'read' });
  assert.deepEqual(parseScopes([exactly('shop', 'a*', 'read')]), { ok: true, scopes: [exactly('shop', 'a*', 'read')] });
  for (const wrong of [{ stream: '' }, { stream: 1 }, { stream: 'a', streams: 'a*' }, { stream: 'a\0' }])
    assert.equal(parseScopes([{ bucket: 'b', operations: ['read'], ...wrong }]).ok, false, JSON.stringify(wrong));
});

test('a wish is understood as a whole or refused in words', () => {
  const scopes = [{ bucket: 'b', stream: 's', operations: ['read'] }];
  const wish = (more: object = {}): string => JSON.stringify({ scopes, expires_in: 60, ...more });
  assert.deepEqual(parseWish(wish()), { ok: true, wish: { scopes, lifeMs: 60_000, isForUrl: false } });
  assert.deepEqual(parseWish(wish({ use: 'url' })), { ok: true, wish: { scopes, lifeMs: 60_000, isForUrl: true } });
  assert(parseWish(wish({ expires_in: NARROWED_SECONDS_MAX })).ok);
  const cases: readonly (readonly [body: string, reason: RegExp])[] = [
    ['', /no JSON/],
    ['{', /no JSON/],
    ['['.repeat(20_000), /no JSON/],
    ['null', /expected \{"scopes"/],
    ['[]', /expected \{"scopes"/],
    [wish({ sub: 'x' }), /expected \{"scopes"/],
    [wish().replace('{', '{"__proto__":{},'), /expected \{"scopes"/],
    [wish({ scopes: undefined }), /scopes: expected a list/],
    [wish({ scopes: [] }), /scopes: expected a list/],
    [wish({ scopes: [{ bucket: 'b', operations: ['rule'] }] }), /scopes\[0\]\.operations\[0\]/],
    [wish({ use: 'header' }), /use: expected "url"/],
    [wish({ expires_in: URL_TOKEN_SECONDS_MAX + 1, use: 'url' }), /1 to 86400 in a URL/],
    [wish({ expires_in: NARROWED_SECONDS_MAX + 1 }), /expires_in/],
    ...[undefined, null, 0, -1, 1.5, '60', 1e300].map(
      (seconds) => [wish({ expires_in: seconds }), /expires_in/] as const,
    ),
    [wish({ use: 'url', scopes: [{ bucket: 'b', operations: ['read', 'append'] }] }), /scopes\[0\].*may read/],
  ];
  for (const [body, reason] of cases) {
    const parsed = parseWish(body);
    assert(!parsed.ok && reason.test(parsed.reason), `${body.slice(0, 80)} ${JSON.stringify(parsed)}`);
  }
});

function keyOf(id: string): NodeKey {
  const { privateKey } = generateKeyPairSync('ed25519');
  return {
    id,
    secret: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    pem: createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }).toString(),
  };
}

const [FIRST, SECOND] = [keyOf('first'), keyOf('second')];
const SHOP = [scopeOf('shop', 'a*', 'read', 'append'), scopeOf('logs', '*', 'read')];
const PARENT = listed('parent', SHOP, NOW_MS + 100_000);

class World {
  readonly file = bookOf([PARENT]);
  client = 'all';
  readonly parents: ParentBook = {
    parentOf: (of) => this.file.parentOf(of),
    parentsNamed: (id) => (id === '' ? [{ seed: this.client }] : this.file.parentsNamed(id)),
  };
  readonly nodes = new NarrowedTokens(this.parents, { keys: [FIRST], revoked: [] }, () => `id-${this.made++}`);
  made = 0;

  parent(): Grant {
    const found = this.file.grantOf(textOf('parent'), NOW_MS);
    assert(typeof found === 'object', JSON.stringify(found));
    return found;
  }

  narrow(parent: Grant | undefined, scopes: readonly Scope[], seconds = 60, isForUrl = false): SignedToken {
    const made = this.nodes.narrow(parent, { scopes, lifeMs: seconds * 1000, isForUrl }, NOW_MS);
    assert(typeof made === 'object' && 'token' in made, JSON.stringify(made));
    return made;
  }

  grant(token: string): Grant {
    const found = this.nodes.grantOf(token, NOW_MS);
    assert(typeof found === 'object', JSON.stringify(found));
    return found;
  }
}

const ONE = [exactly('shop', 'a1', 'read')];

test('children of the token with all rights have what is theirs for their share, and all below them the same', () => {
  const world = new World();
  const scopes = [scopeOf('shop', 'a*', 'read', 'subscribe'), scopeOf('logs', 'x', 'read')];
  const first = world.grant(world.narrow(undefined, scopes).token);
  assert.equal(first.share, undefined, 'its own scopes');
  let below = first;
  for (const streams of ['ab*', 'abc']) {
    below = world.grant(world.narrow(below, [scopeOf('shop', streams, 'subscribe', 'read')]).token);
    assert.deepEqual([below.account, below.share], [`node:${first.id}`, scopes], streams);
  }
  const reader = world.grant(world.narrow(first, [scopeOf('shop', 'ab', 'read')]).token);
  assert.equal(reader.share, undefined, 'it makes none, and stays small');
});

test('a child has its rights until its time, and never beyond its parent', () => {
  const world = new World();
  const { id, token, expiresAtMs } = world.narrow(world.parent(), ONE);
  assert.deepEqual(world.grant(token), {
    ...{ id, account: 'parent', share: SHOP, expiresAtMs: NOW_MS + 60_000, scopes: ONE },
  });
  assert.equal(expiresAtMs, NOW_MS + 60_000);
  assert.equal(world.nodes.grantOf(token, expiresAtMs), 'expired');
  assert.equal(world.narrow(world.parent(), ONE, 5000).expiresAtMs, NOW_MS + 100_000);
  const wider: readonly (readonly Scope[])[] = [
    [scopeOf('shop', '*', 'read')],
    [scopeOf('*', 'a1', 'read')],
    [scopeOf('shop', 'a1', 'delete')],
    [...ONE, scopeOf('logs', '*', 'append')],
  ];
  for (const scopes of wider) {
    const refused = world.nodes.narrow(world.parent(), { scopes, lifeMs: 1000, isForUrl: false }, NOW_MS);
    assert(typeof refused === 'object' && 'reason' in refused, JSON.stringify(scopes));
    assert.match(refused.reason, /^scopes\[[01]\]: no scope of the token covers/);
  }
  assert.equal(
    world.nodes.narrow(world.parent(), { scopes: ONE, lifeMs: 1000, isForUrl: false }, PARENT.expiresAtMs ?? 0),
    'ended',
  );
  const all = world.narrow(undefined, [scopeOf('*', '*', ...SCOPED_OPERATIONS)]);
  assert.equal(decideBucket(world.grant(all.token), 'delete', 'any'), 'allowed');
});

test('a child ends when a token above it is revoked, goes, or has fewer rights', () => {
  const changes: readonly (readonly [what: string, change: (world: World, ids: readonly string[]) => void])[] = [
    ['revoked by its own id', ({ nodes }, [, child = '']) => nodes.replace({ keys: [FIRST], revoked: [child] })],
    ['the id above', ({ nodes }, [above = '']) => nodes.replace({ keys: [FIRST], revoked: [above] })],
    ['the id of the first', ({ nodes }) => nodes.replace({ keys: [FIRST], revoked: ['parent'] })],
    ['the entry is revoked', ({ file }) => file.replace({ tokens: [PARENT], revoked: ['parent'] })],
    ['the entry goes', ({ file }) => file.replace({ tokens: [], revoked: [] })],
    [
      'another token under its id',
      ({ file }) => file.replace({ tokens: [{ ...listed('other', SHOP), id: 'parent' }], revoked: [] }),
    ],
    ['fewer rights', ({ file }) => file.replace({ tokens: [listed('parent', SHOP.slice(1))], revoked: [] })],
    ['an earlier end', ({ file }) => file.replace({ tokens: [listed('parent', SHOP, NOW_MS + 1000)], revoked: [] })],
    ['the key goes', ({ nodes }) => nodes.replace({ keys: [SECOND], revoked: [] })],
  ];
  for (const [what, change] of changes) {
    const world = new World();
    const above = world.narrow(world.parent(), ONE);
    const child = world.narrow(world.grant(above.token), ONE);
    const held = world.grant(child.token);
    assert(world.nodes.holds(held));
    change(world, [above.id, child.id]);
    assert(!world.nodes.holds(held), what);
    assert.equal(typeof world.nodes.grantOf(child.token, NOW_MS), 'string', what);
  }
  const world = new World();
  const held = world.grant(world.narrow(world.parent(), ONE).token);
  world.file.replace({ tokens: [listed('parent', [...SHOP, scopeOf('more', '*', 'read')])], revoked: ['else'] });
  assert(world.nodes.holds(held), 'more rights of the parent end nothing');
});

test('the children of the token with all rights end when it is another one', () => {
  const world = new World();
  const child = world.narrow(undefined, ONE);
  const below = world.grant(world.narrow(world.grant(child.token), ONE).token);
  world.client = 'another';
  assert.equal(world.nodes.grantOf(child.token, NOW_MS), 'orphaned');
  assert(!world.nodes.holds(below));
});

test('the children of an issuer token end with its id and with its key, by the clock that its skew allows', () => {
  const [issuer, other] = [keyOf('issuer'), keyOf('other')];
  const asKeys = (...keys: readonly NodeKey[]): readonly JwtKey[] =>
    keys.map(({ id, pem }) => ({ id, algorithm: 'EdDSA', pem }));
  const rules = { issuer: 'https://id.example', audience: 'millrace', clockSkewMs: 30_000 };
  const jwt = new JwtTokens(rules, { keys: asKeys(issuer, other), revoked: [] });
  const nodes = new NarrowedTokens(jwt, { keys: [FIRST], revoked: [] }, () => 'child');
  const sign = createSigner({
    key: issuer.secret,
    algorithm: 'EdDSA',
    kid: 'issuer',
    iss: rules.issuer,
    aud: 'millrace',
  });
  const sent = sign({ exp: NOW_MS / 1000 + 10, jti: 'agent-7', scopes: SHOP });
  assert.equal(nodes.grantOf(sent, NOW_MS), 'foreign');
  const parent = jwt.grantOf(sent, NOW_MS);
  assert(typeof parent === 'object', JSON.stringify(parent));
  const made = nodes.narrow(parent, { scopes: ONE, lifeMs: 3_600_000, isForUrl: false }, NOW_MS);
  assert(typeof made === 'object' && 'token' in made, JSON.stringify(made));
  assert.equal(made.expiresAtMs, parent.expiresAtMs, 'both end at one moment of one clock');
  assert.equal(jwt.grantOf(made.token, NOW_MS), 'foreign');
  const held = nodes.grantOf(made.token, made.expiresAtMs - 1);
  assert(typeof held === 'object', JSON.stringify(held));
  assert.equal(held.share, undefined, 'it makes no subscriptions');
  assert.equal(nodes.grantOf(made.token, made.expiresAtMs), 'expired');
  nodes.replace({ keys: [FIRST], revoked: ['agent-7'] });
  assert.equal(nodes.grantOf(made.token, NOW_MS), 'revoked');
  nodes.replace({ keys: [FIRST], revoked: [] });
  assert(nodes.holds(held));
  for (const changed of [{ issuer: 'https://other.example' }, { audience: 'others' }]) {
    const restarted = new JwtTokens({ ...rules, ...changed }, { keys: asKeys(issuer, other), revoked: [] });
    const there = new NarrowedTokens(restarted, { keys: [FIRST], revoked: [] }, () => 'child');
    assert.equal(there.grantOf(made.token, NOW_MS), 'orphaned', JSON.stringify(changed));
  }
  jwt.replace({ keys: asKeys(other), revoked: [] });
  assert(!nodes.holds(held));
  assert.equal(nodes.grantOf(made.token, NOW_MS), 'orphaned');
  assert.equal(nodes.narrow(parent, { scopes: ONE, lifeMs: 1000, isForUrl: false }, NOW_MS), 'ended');
});

test('the children of an issuer token carry its scopes for their share', () => {
  const issuer = keyOf('issuer');
  const rules = { issuer: 'https://id.example', audience: 'millrace', clockSkewMs: 0 };
  const jwt = new JwtTokens(rules, { keys: [{ id: 'issuer', algorithm: 'EdDSA', pem: issuer.pem }], revoked: [] });
  const nodes = new NarrowedTokens(jwt, { keys: [FIRST], revoked: [] }, () => 'child');
  const scopes = [scopeOf('shop', 'a*', 'read', 'subscribe')];
  const signer = createSigner({
    ...{ key: issuer.secret, algorithm: 'EdDSA', kid: 'issuer', iss: rules.issuer, aud: rules.audience },
  });
  let at = jwt.grantOf(signer({ exp: NOW_MS / 1000 + 60, jti: 'agent-7', scopes }), NOW_MS);
  for (const streams of ['ab*', 'abc']) {
    assert(typeof at === 'object', JSON.stringify(at));
    const wish = { scopes: [scopeOf('shop', streams, 'read', 'subscribe')], lifeMs: 1000, isForUrl: false };
    const made = nodes.narrow(at, wish, NOW_MS);
    assert(typeof made === 'object' && 'token' in made, JSON.stringify(made));
    at = nodes.grantOf(made.token, NOW_MS);
    assert(typeof at === 'object', JSON.stringify(at));
    assert.deepEqual(at.share, scopes);
  }
});

test('keys rotate: the first signs and all verify, and a line stays with its key', () => {
  const world = new World();
  const before = world.narrow(world.parent(), ONE);
  const held = world.grant(before.token);
  world.nodes.replace({ keys: [SECOND, FIRST], revoked: [] });
  assert(world.nodes.holds(held));
  const below = world.narrow(held, ONE);
  const after = world.narrow(world.parent(), ONE);
  world.nodes.replace({ keys: [SECOND], revoked: [] });
  assert.equal(world.nodes.grantOf(before.token, NOW_MS), 'unknown-key');
  assert.equal(world.nodes.grantOf(below.token, NOW_MS), 'unknown-key');
  assert(world.grant(after.token));
  assert.equal(world.nodes.narrow(held, { scopes: ONE, lifeMs: 1000, isForUrl: false }, NOW_MS), 'ended');
});

test('a line has a bounded length, and a token a bounded size', () => {
  const world = new World();
  let at = world.parent();
  for (let i = 0; i < NARROWED_DEPTH_MAX; i++) at = world.grant(world.narrow(at, ONE).token);
  const deep = world.nodes.narrow(at, { scopes: ONE, lifeMs: 1000, isForUrl: false }, NOW_MS);
  assert(
    typeof deep === 'object' && 'reason' in deep && deep.reason.includes('narrowed 4 times'),
    JSON.stringify(deep),
  );
  const many = Array.from({ length: 30 }, (_, i) => exactly('shop', `a${i}`.padEnd(1000, 'x'), 'read'));
  const large = world.nodes.narrow(world.parent(), { scopes: many, lifeMs: 1000, isForUrl: false }, NOW_MS);
  assert(typeof large === 'object' && 'reason' in large && large.reason.includes('8192'), JSON.stringify(large));
});

test('a token for URLs is for nothing else, and no other is one', () => {
  const world = new World();
  const linked = world.narrow(world.parent(), ONE, 60, true);
  assert.equal(world.nodes.grantOf(linked.token, NOW_MS), 'only-for-urls');
  const found = world.nodes.urlGrantOf(linked.token, NOW_MS);
  assert(typeof found === 'object' && found.isForUrl === true, JSON.stringify(found));
  assert.equal(world.nodes.urlGrantOf(linked.token, NOW_MS + 60_000), 'expired');
  assert.equal(world.nodes.urlGrantOf(world.narrow(world.parent(), ONE).token, NOW_MS), 'not-for-urls');
  for (const other of [textOf('parent'), '', 'a.b.c', '%00'])
    assert.equal(world.nodes.urlGrantOf(other, NOW_MS), 'foreign-in-url', other);
  world.nodes.replace({ keys: [FIRST], revoked: ['parent'] });
  assert.equal(world.nodes.urlGrantOf(linked.token, NOW_MS), 'revoked');
});

test('what another key signed, or lacks its origin, opens nothing', () => {
  const world = new World();
  const claims = { exp: NOW_MS / 1000 + 60, jti: 'x', from: [''], seal: 'x'.repeat(22), scopes: ONE };
  const signedBy = ({ secret, id }: NodeKey, more: object = {}, iss = NODE_ISSUER): string =>
    createSigner({ key: secret, algorithm: 'EdDSA', kid: id, iss, aud: NODE_ISSUER })({ ...claims, ...more });
  const cases: readonly (readonly [token: string, fault: string])[] = [
    [signedBy(SECOND), 'unknown-key'],
    [signedBy({ ...SECOND, id: 'first' }), 'wrong-signature'],
    [signedBy(FIRST, {}, 'https://issuer.example'), 'foreign'],
    // The key itself, without a seal that it made: nothing but a bug signs such a token.
    [signedBy(FIRST), 'orphaned'],
    [signedBy(FIRST, { from: [] }), 'malformed'],
    [signedBy(FIRST, { from: 'parent' }), 'malformed'],
    [signedBy(FIRST, { from: [1] }), 'malformed'],
    [signedBy(FIRST, { from: ['', '', '', '', ''] }), 'malformed'],
    [signedBy(FIRST, { seal: undefined }), 'malformed'],
    [signedBy(FIRST, { jti: undefined }), 'without-id'],
    [signedBy(FIRST, { scopes: [] }), 'wrong-scopes'],
    [signedBy(FIRST, { share: [{}] }), 'wrong-scopes'],
  ];
  for (const [token, fault] of cases) assert.equal(world.nodes.grantOf(token, NOW_MS), fault);
});

test('a parent that has ended covers nothing that ends later', () => {
  const parent: Grant = { ...grant(...SHOP), expiresAtMs: 5 };
  assert(!isWithin({ ...grant(...ONE), expiresAtMs: 6 }, parent));
  assert(isWithin({ ...grant(...ONE), expiresAtMs: 5 }, parent));
  assert.equal(narrowingFault(undefined, { scopes: SHOP, lifeMs: 1, isForUrl: false }), undefined);
});
