// Wrong signed tokens cost time, so few of one address are verified; nothing else is refused for them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FailedTokens } from '../../src/access/failed-tokens.ts';
import type { Grant } from '../../src/access/scopes.ts';
import { Senders } from '../../src/access/senders.ts';
import type { TokenFault } from '../../src/access/token-book.ts';

const JWT = 'aaaa.bbbb.cccc';
const GRANT: Grant = { id: 'a', expiresAtMs: Infinity, scopes: [] };

class Rig {
  clockMs = 0;
  verified = 0;
  readonly #failed = new FailedTokens(new Senders([]), () => this.clockMs);

  ask(from: string, found: Grant | TokenFault = 'wrong-signature', token = JWT): unknown {
    const address = new TextEncoder().encode(from);
    const sender = { peer: { getRemoteAddressAsText: () => address.buffer }, forwardedFor: '' };
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

test('good tokens, and wrong ones that are seen at once, are not counted', () => {
  const rig = new Rig();
  for (let i = 0; i < 100; i++) {
    for (const found of [GRANT, 'foreign', 'malformed', 'unknown-key', 'wrong-algorithm'] as const) {
      assert.equal(rig.ask('203.0.113.1', found), found);
    }
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
