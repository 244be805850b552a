import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { test } from 'node:test';
import { Keys, newKey } from '../../src/server/subscriptions/keys.ts';

const NOW_MS = 1_700_000_000_000;
const CLAIMS = { id: 'sub', generation: 3, wakeId: 'w' };

test('a signature is verified with the key that the set shows under its name', () => {
  const keys = new Keys(newKey());
  const body = Buffer.from('{"a":1}');
  const header = keys.signature(body, NOW_MS);
  const [, seconds, kid, signature] = /^t=(\d+),kid=([^,]+),ed25519=([\w-]+)$/.exec(header) ?? [];
  assert.equal(seconds, '1700000000');
  const jwk = keys.jwks().keys.find((key) => key['kid'] === kid);
  assert(jwk !== undefined);
  const key = createPublicKey({ key: { ...jwk }, format: 'jwk' });
  const signed = Buffer.concat([Buffer.from(`${seconds}.`), body]);
  assert(verify(null, signed, key, Buffer.from(signature ?? '', 'base64url')));
  assert(!verify(null, Buffer.from(`${seconds}.{"a":2}`), key, Buffer.from(signature ?? '', 'base64url')));
});

test('the set shows no secret', () => {
  const saved = newKey();
  const shown = JSON.stringify(new Keys(saved).jwks());
  assert(shown.includes(saved.x));
  assert(!shown.includes(saved.d) && !shown.includes(saved.secret));
  assert.match(saved.kid, /^ds_[\w-]{43}$/);
});

test('a token is good for its subscription, until it is too old, and on every node', () => {
  const saved = newKey();
  const token = new Keys(saved).token(CLAIMS, NOW_MS);
  const other = new Keys(saved);
  assert.deepEqual(other.check(token, 'sub', NOW_MS), { ok: true, claims: CLAIMS });
  assert.deepEqual(other.check(token, 'another', NOW_MS), { ok: false, code: 'TOKEN_INVALID' });
  assert.deepEqual(other.check(token, 'sub', NOW_MS + 25 * 3_600_000), { ok: false, code: 'TOKEN_EXPIRED' });
});

test('what is not ours, or was changed, is no token', () => {
  const keys = new Keys(newKey());
  const token = keys.token(CLAIMS, NOW_MS);
  const [payload = '', mac = ''] = token.split('.');
  const forged = Buffer.from(JSON.stringify({ sub: 'sub', gen: 4, wake: 'w', exp: 9e9 })).toString('base64url');
  const foreign = new Keys(newKey()).token(CLAIMS, NOW_MS);
  for (const bad of ['', '.', 'x', payload, `${payload}.`, `.${mac}`, `${forged}.${mac}`, `${payload}.AAAA`, foreign]) {
    assert.deepEqual(keys.check(bad, 'sub', NOW_MS), { ok: false, code: 'TOKEN_INVALID' }, bad);
  }
});
