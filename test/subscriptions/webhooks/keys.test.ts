import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { test } from 'node:test';
import { Keys, keyPairOf, newKey, newKeyPair } from '../../../src/subscriptions/webhooks/webhook-keys.ts';
import { Machine } from '../../../src/subscriptions/state/machine.ts';
import type { SavedKey } from '../../../src/subscriptions/state/record.ts';
import { PUBLISH_MS, RETIRE_MS, SIGNING_KEYS_MAX } from '../../../src/subscriptions/state/signing-keys.ts';

const NOW_MS = 1_700_000_000_000;
const CLAIMS = { id: 'sub', generation: 3, wakeId: 'w' };

const keysOf = (saved: SavedKey): Keys => new Keys(saved.secret, [{ ...saved, from: 0, alone: false }]);

test('a signature is verified with the key that the set shows under its name', () => {
  const keys = keysOf(newKey());
  const body = Buffer.from('{"a":1}');
  const header = keys.signature(body, NOW_MS) ?? '';
  const [, seconds, kid, signature] = /^t=(\d+),kid=([^,]+),ed25519=([\w-]+)$/.exec(header) ?? [];
  assert.equal(seconds, '1700000000');
  const jwk = keys.jwks(NOW_MS).keys.find((key) => key['kid'] === kid);
  assert(jwk !== undefined);
  const key = createPublicKey({ key: { ...jwk }, format: 'jwk' });
  const signed = Buffer.concat([Buffer.from(`${seconds}.`), body]);
  assert(verify(null, signed, key, Buffer.from(signature ?? '', 'base64url')));
  assert(!verify(null, Buffer.from(`${seconds}.{"a":2}`), key, Buffer.from(signature ?? '', 'base64url')));
});

test('the set shows no secret', () => {
  const saved = newKey();
  const shown = JSON.stringify(keysOf(saved).jwks(NOW_MS));
  assert(shown.includes(saved.x));
  assert(!shown.includes(saved.d) && !shown.includes(saved.secret));
  assert.match(saved.kid, /^ds_[\w-]{43}$/);
});

test('a token is good for its subscription, until it is too old, and on every node', () => {
  const saved = newKey();
  const token = keysOf(saved).token(CLAIMS, NOW_MS);
  const other = keysOf(saved);
  assert.deepEqual(other.check(token, 'sub', NOW_MS), { ok: true, claims: CLAIMS });
  assert.deepEqual(other.check(token, 'another', NOW_MS), { ok: false, code: 'TOKEN_INVALID' });
  assert.deepEqual(other.check(token, 'sub', NOW_MS + 25 * 3_600_000), { ok: false, code: 'TOKEN_EXPIRED' });
});

test('what is not ours, or was changed, is no token', () => {
  const keys = keysOf(newKey());
  const token = keys.token(CLAIMS, NOW_MS);
  const [payload = '', mac = ''] = token.split('.');
  const forged = Buffer.from(JSON.stringify({ sub: 'sub', gen: 4, wake: 'w', exp: 9e9 })).toString('base64url');
  const foreign = keysOf(newKey()).token(CLAIMS, NOW_MS);
  for (const bad of ['', '.', 'x', payload, `${payload}.`, `.${mac}`, `${forged}.${mac}`, `${payload}.AAAA`, foreign]) {
    assert.deepEqual(keys.check(bad, 'sub', NOW_MS), { ok: false, code: 'TOKEN_INVALID' }, bad);
  }
});

/** The cluster's keys, and which one signs. */
class Ring {
  readonly machine: Machine;
  readonly #names = new Map<string, string>();

  constructor(first: SavedKey) {
    const silent = (): void => undefined;
    this.machine = new Machine({ added: silent, changed: silent, removed: silent, linked: silent, unlinked: silent });
    this.machine.apply({ op: 'key', ...first });
    this.#names.set(first.kid, 'first');
  }

  add(name: string, at: number, more: object = {}): string {
    const pair = newKeyPair();
    this.#names.set(pair.kid, name);
    return this.machine.apply({ op: 'rotate', at, ...pair, from: at + PUBLISH_MS, alone: false, ...more }).code;
  }

  keys(own?: ReturnType<typeof newKeyPair>): Keys {
    return new Keys(this.machine.key?.secret ?? '', this.machine.signingKeys, own);
  }

  shown(nowMs: number): string {
    const keys = this.keys();
    const kid = /kid=([^,]+)/.exec(keys.signature(new Uint8Array(1), nowMs) ?? '')?.[1] ?? '';
    assert.equal(kid, keys.kid(nowMs));
    const names = keys.jwks(nowMs).keys.map((key) => this.#names.get(key['kid'] ?? ''));
    return `${this.#names.get(kid)}: ${names.join(' ')}`;
  }
}

test('another key is shown before it signs, and the one before it as long as its signatures may be met', () => {
  const ring = new Ring(newKey());
  const token = ring.keys().token(CLAIMS, NOW_MS);
  assert.equal(ring.shown(NOW_MS), 'first: first');
  assert.equal(ring.add('second', NOW_MS), 'OK');
  assert.equal(ring.shown(NOW_MS), 'first: second first');
  assert.equal(ring.shown(NOW_MS + PUBLISH_MS - 1), 'first: second first');
  assert.equal(ring.shown(NOW_MS + PUBLISH_MS), 'second: second first');
  assert.equal(ring.shown(NOW_MS + PUBLISH_MS + RETIRE_MS), 'second: second');
  assert(ring.keys().check(token, 'sub', NOW_MS).ok, 'tokens do not notice');
  // A key in wrong hands is gone at once.
  const laterMs = NOW_MS + 2 * PUBLISH_MS;
  assert.equal(ring.add('third', laterMs, { from: laterMs, alone: true }), 'OK');
  assert.equal(ring.shown(laterMs), 'third: third');
  for (let i = 1; i < SIGNING_KEYS_MAX; i++) assert.equal(ring.add(`n${i}`, laterMs + i), 'OK');
  assert.equal(ring.add('many', laterMs + SIGNING_KEYS_MAX), 'LIMIT_EXCEEDED');
  const again = new Ring(ring.machine.key as SavedKey);
  again.machine.clear();
  for (const record of ring.machine.checkpoint()) again.machine.apply(record);
  assert.deepEqual(again.machine.signingKeys, ring.machine.signingKeys);
  assert.equal(ring.add('last', laterMs + PUBLISH_MS + RETIRE_MS + 100), 'OK');
  assert.equal(ring.machine.rotated.length, 2, 'keys no longer shown are dropped');
});

test('the private half of a key from a file is in no record', () => {
  const pem = generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
  const own = keyPairOf(pem);
  const ring = new Ring(newKey(own));
  assert(!JSON.stringify(ring.machine.checkpoint()).includes(own.d));
  const body = new Uint8Array(1);
  assert.equal(ring.keys().signature(body, NOW_MS), undefined, 'a node without the file');
  assert.match(ring.keys(own).signature(body, NOW_MS) ?? '', new RegExp(own.kid));
  // The file of another key: it is shown already, and the node has no other one.
  const next = newKeyPair();
  ring.machine.apply({ op: 'rotate', at: NOW_MS, ...next, d: '', from: NOW_MS + PUBLISH_MS, alone: false });
  assert.match(ring.keys(next).signature(body, NOW_MS) ?? '', new RegExp(next.kid));
  assert.match(ring.keys(own).signature(body, NOW_MS) ?? '', new RegExp(own.kid));
});
