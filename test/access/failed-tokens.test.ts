// Wrong signed tokens cost time, so few of one address are verified; nothing else is refused for them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Credentials, RequestAdmission } from '../../src/access/admission.ts';
import { FailedTokens } from '../../src/access/failed-tokens.ts';
import type { Grant } from '../../src/access/scopes.ts';
import { Senders } from '../../src/access/senders.ts';
import type { TokenBook, TokenFault } from '../../src/access/token-book.ts';
import { TOKEN_CLOCK } from '../../src/access/token-clock.ts';

const JWT = 'aaaa.bbbb.cccc';
const GRANT: Grant = { id: 'a', expiresAtMs: Infinity, scopes: [] };

class Rig {
  clockMs = 0;
  verified = 0;
  readonly #failed = new FailedTokens(new Senders([]), () => this.clockMs);

  ask(from: string, found: Grant | TokenFault = 'wrong-signature', token = JWT): unknown {
    const address = new TextEncoder().encode(from);
    const sender = { peer: { getRemoteAddressAsText: () => address.buffer }, headers: {} };
    return this.#failed.bounded(token, sender, () => {
      this.verified++;
      return found;
    });
  }

  /** How many of `count` wrong tokens are verified. */
  flood(from: string, count: number): number {
    const before = this.verified;
    for (let i = 0; i < count; i++) this.ask(from);
    return this.verified - before;
  }
}

test('twenty wrong tokens of one address are verified in a second, then none', () => {
  const rig = new Rig();
  assert.equal(rig.flood('203.0.113.1', 1000), 20);
  assert.equal(rig.ask('203.0.113.1', GRANT), 'throttled', 'nor is a good one that is new');
  assert.equal(rig.ask('203.0.113.2', GRANT), GRANT, 'another address');
  assert.equal(rig.ask('203.0.113.1', GRANT, 'no-jwt'), GRANT, 'a token that costs nothing');
  rig.clockMs = 999;
  assert.equal(rig.ask('203.0.113.1'), 'throttled');
  rig.clockMs = 1000;
  assert.equal(rig.flood('203.0.113.1', 1000), 20);
});

test('good tokens, those that ended, and wrong ones that are seen at once are not counted', () => {
  const rig = new Rig();
  const seen = [GRANT, 'foreign', 'malformed', 'unknown-key', 'wrong-algorithm'] as const;
  const ended = ['expired', 'revoked', 'orphaned', 'not-yet-valid', 'only-for-urls', 'not-for-urls'] as const;
  for (let i = 0; i < 100; i++) {
    for (const found of [...seen, ...ended]) assert.equal(rig.ask('203.0.113.1', found), found);
  }
  assert.equal(rig.flood('203.0.113.1', 100), 20);
});

test('all addresses of one /64 are one, and the bound over all holds against very many', () => {
  const rig = new Rig();
  let verified = 0;
  for (let i = 0; i < 100; i++) verified += rig.flood(`2001:db8:0:7::${i.toString(16)}`, 10);
  assert.equal(verified, 20);
  assert.equal(rig.ask('2001:db8:0:8::1', GRANT), GRANT, 'the next network');
  assert.equal(rig.flood('2001:db8:0:7:ffff:ffff:ffff:ffff', 10), 0);
  verified = 0;
  for (let i = 0; i < 5000; i++) verified += rig.flood(`10.0.${i >> 8}.${i & 255}`, 1);
  assert.equal(verified, 980);
});

test('what was verified is remembered: through a flood, other spellings, and changes that leave it as it is', (t) => {
  const clock = { ms: 1_000_000 };
  t.mock.method(TOKEN_CLOCK, 'nowMs', () => clock.ms);
  const tokens = new Map<string, Grant | TokenFault>([
    ['good.good.good', GRANT],
    ['late.late.late', 'expired'],
  ]);
  const verified: string[] = [];
  const book: TokenBook = {
    grantOf(token) {
      verified.push(token.slice(0, 4));
      return tokens.get(token) ?? 'wrong-signature';
    },
    holds: (grant) => [...tokens.values()].includes(grant),
  };
  const failed = new FailedTokens(new Senders([]), () => clock.ms);
  const admission = new RequestAdmission({
    ...{ policy: { refuses: () => undefined }, token: '', book, routes: { access: () => 'token' }, failed },
  });
  const address = new TextEncoder().encode('203.0.113.1');
  const peer = { getRemoteAddressAsText: () => address.buffer };
  const ask = (token: string, scheme = 'Bearer'): Credentials =>
    admission.credentialsOf({ authorization: `${scheme} ${token}` }, { getQuery: () => undefined }, 'post', peer);
  assert.equal(ask('good.good.good'), GRANT);
  assert.equal(ask('late.late.late'), 'expired');
  for (let i = 0; i < 100; i++) {
    ask('wrong.wrong.wrong');
    assert.equal(ask('good.good.good', 'BEARER  '), GRANT);
    assert.equal(ask('late.late.late', 'bearer  '), 'expired');
  }
  assert.equal(ask('new.new.new'), 'throttled');
  assert.deepEqual(verified, ['good', 'late', ...Array<string>(20).fill('wron')]);
  admission.changeGrants();
  assert.equal(ask('good.good.good'), GRANT, 'the book still holds it');
  assert.equal(ask('late.late.late'), 'throttled', 'what has ended may be valid again');
  clock.ms += 1000;
  assert.equal(ask('late.late.late'), 'expired');
  tokens.set('late.late.late', GRANT);
  assert.equal(ask('late.late.late'), 'expired');
  clock.ms += 1000;
  assert.equal(ask('late.late.late'), GRANT, 'a second later it is looked at again');
  tokens.set('good.good.good', 'revoked').set('late.late.late', 'revoked');
  admission.changeGrants();
  assert.equal(ask('good.good.good'), 'revoked');
});
