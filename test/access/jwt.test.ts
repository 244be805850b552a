// Tokens that an issuer signs: every way in which one can be wrong, keys of every kind, and what a change of them does.
import assert from 'node:assert/strict';
import { type KeyObject, createHmac, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import { test } from 'node:test';
import { parseJwks, parseKeyFile } from '../../src/config/jwt-keys.ts';
import { JwtTokens, isJwt } from '../../src/access/jwt-tokens.ts';
import type { TokenFault } from '../../src/access/token-book.ts';
import type { JwtKey } from '../../src/base/jwt-key.ts';
import { JWT_KEYS_MAX, JWT_TRIES_MAX, TOKEN_ID_CHARS_MAX } from '../../src/base/limits.ts';

const RULES = { issuer: 'https://issuer.example', audience: 'millrace', clockSkewMs: 30_000 };
const NOW_MS = Date.UTC(2026, 10, 27);
const NOW = NOW_MS / 1000;
const SCOPES = [{ bucket: 'chat', streams: 'agent-*', operations: ['read', 'append'] }];
const CLAIMS = { iss: RULES.issuer, aud: RULES.audience, exp: NOW + 60, jti: 'agent-1', scopes: SCOPES };

const ED = generateKeyPairSync('ed25519');
const OTHER_ED = generateKeyPairSync('ed25519');
const EC = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const RSA = generateKeyPairSync('rsa', { modulusLength: 2048 });

const part = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

type Seal = (input: string) => Buffer;

function signer(key: KeyObject): Seal {
  const digest = key.asymmetricKeyType === 'ed25519' ? null : 'sha256';
  return (input) => sign(digest, Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' });
}

function token(head: unknown, claims: unknown, seal: Seal): string {
  const input = `${part(head)}.${part(claims)}`;
  return `${input}.${seal(input).toString('base64url')}`;
}

const sealed = signer(ED.privateKey);
const HEAD = { alg: 'EdDSA', typ: 'JWT', kid: 'ed' };
const good = (more: object = {}): string => token(HEAD, { ...CLAIMS, ...more }, sealed);

function pemOf(key: KeyObject): string {
  return key.export({ type: 'spki', format: 'pem' }).toString();
}

function keysOf(text: string): readonly JwtKey[] {
  const parsed = parseKeyFile(text);
  assert(parsed.ok, JSON.stringify(parsed));
  return parsed.keys;
}

function jwk(key: KeyObject, more: object = {}): object {
  return { ...key.export({ format: 'jwk' }), ...more };
}

const SET = JSON.stringify({
  keys: [
    jwk(ED.publicKey, { kid: 'ed', use: 'sig' }),
    jwk(EC.publicKey, { kid: 'ec', alg: 'ES256' }),
    jwk(RSA.publicKey, { kid: 'rsa' }),
  ],
});

function book(text = SET, revoked: readonly string[] = []): JwtTokens {
  return new JwtTokens(RULES, { keys: keysOf(text), revoked });
}

test('a token of each algorithm gives its scopes until it expires, by the clock of the request', () => {
  const tokens = book();
  for (const [alg, kid, { privateKey }] of [
    ['EdDSA', 'ed', ED],
    ['ES256', 'ec', EC],
    ['RS256', 'rsa', RSA],
  ] as const) {
    const sent = token({ alg, kid }, CLAIMS, signer(privateKey));
    assert(isJwt(sent));
    const expiresAtMs = CLAIMS.exp * 1000 + RULES.clockSkewMs;
    assert.deepEqual(tokens.grantOf(sent, NOW_MS), {
      ...{ id: 'agent-1', account: 'issuer:agent-1' },
      ...{ expiresAtMs, scopes: SCOPES },
    });
    assert.equal(tokens.grantOf(sent, expiresAtMs), 'expired');
    assert.equal(tokens.grantOf(sent, Number.NaN), 'expired');
  }
});

const deep = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const unsigned = (head: unknown): string => `${part(head)}.${part(CLAIMS)}.`;
const hmac: Seal = (input) => createHmac('sha256', pemOf(ED.publicKey)).update(input).digest();

/** Each with why it opens nothing. */
const WRONG: readonly (readonly [what: string, sent: string, fault: TokenFault])[] = [
  ['nothing', '', 'malformed'],
  ['a word', 'secret', 'malformed'],
  ['two parts', `${part(HEAD)}.${part(CLAIMS)}`, 'malformed'],
  ['four parts', `${good()}.e30`, 'malformed'],
  ['a head that is no JSON', `${part('{')}.${part(CLAIMS)}.AA`, 'malformed'],
  ['a head that is a list', token([HEAD], CLAIMS, sealed), 'malformed'],
  ['claims that are a list', token(HEAD, [CLAIMS], sealed), 'malformed'],
  ['claims that are null', token(HEAD, 'null', sealed), 'malformed'],
  ['signs of another alphabet', good().replace('.', '.+'), 'malformed'],
  ['blanks inside', good().replace('.', '. '), 'malformed'],
  ['a deep head', token(`{"alg":"EdDSA","kid":${deep(3000)}}`, CLAIMS, sealed), 'malformed'],
  ['deep scopes', good({ scopes: JSON.parse(deep(900)) as unknown }), 'wrong-scopes'],
  ['no algorithm', token({ kid: 'ed' }, CLAIMS, sealed), 'wrong-algorithm'],
  ['none', unsigned({ alg: 'none', kid: 'ed' }), 'wrong-algorithm'],
  ['none in capitals', unsigned({ alg: 'NONE' }), 'wrong-algorithm'],
  ['no signature', unsigned(HEAD), 'wrong-signature'],
  ['the public key as a secret', token({ alg: 'HS256', kid: 'ed' }, CLAIMS, hmac), 'wrong-algorithm'],
  ['the public key as a secret, under the right name', token(HEAD, CLAIMS, hmac), 'wrong-signature'],
  ['the algorithm of another key', token({ alg: 'RS256', kid: 'ed' }, CLAIMS, sealed), 'wrong-algorithm'],
  ['another key', token(HEAD, CLAIMS, signer(OTHER_ED.privateKey)), 'wrong-signature'],
  [
    'a key of its own',
    token({ ...HEAD, jwk: jwk(OTHER_ED.publicKey) }, CLAIMS, signer(OTHER_ED.privateKey)),
    'wrong-signature',
  ],
  [
    'other claims',
    `${part(HEAD)}.${part({ ...CLAIMS, jti: 'root' })}.${good().split('.')[2] ?? ''}`,
    'wrong-signature',
  ],
  ['a key that is not here', token({ ...HEAD, kid: 'gone' }, CLAIMS, sealed), 'unknown-key'],
  ['a key id that is a number', token({ ...HEAD, kid: 1 }, CLAIMS, sealed), 'malformed'],
  ['an extension that must be understood', token({ ...HEAD, crit: ['b64'], b64: false }, CLAIMS, sealed), 'malformed'],
  ['expired', good({ exp: NOW - 31 }), 'expired'],
  ['no expiry', good({ exp: undefined }), 'foreign'],
  [
    'an expiry beyond all dates',
    token(HEAD, JSON.stringify(CLAIMS).replace(`${CLAIMS.exp}`, '1e400'), sealed),
    'malformed',
  ],
  ['an expiry that is text', good({ exp: '2027' }), 'malformed'],
  ['not valid yet', good({ nbf: NOW + 31 }), 'not-yet-valid'],
  ['a begin that is text', good({ nbf: 'now' }), 'malformed'],
  ['another issuer', good({ iss: 'https://issuer.example.evil' }), 'foreign'],
  ['several issuers', good({ iss: [RULES.issuer, 'https://evil'] }), 'foreign'],
  ['no issuer', good({ iss: undefined }), 'foreign'],
  ['another audience', good({ aud: ['kafka'] }), 'foreign'],
  ['no audience', good({ aud: undefined }), 'foreign'],
  ['no id', good({ jti: undefined }), 'without-id'],
  ['an id that is too long', good({ jti: 'x'.repeat(TOKEN_ID_CHARS_MAX + 1) }), 'without-id'],
  ['no scopes', good({ scopes: undefined }), 'wrong-scopes'],
  ['an empty list of scopes', good({ scopes: [] }), 'wrong-scopes'],
  ['an operation that there is not', good({ scopes: [{ bucket: 'chat', operations: ['admin'] }] }), 'wrong-scopes'],
  ['a member that there is not', good({ scopes: [{ ...SCOPES[0], all: true }] }), 'wrong-scopes'],
];

test('whatever else is sent opens nothing, and the fault says why', () => {
  const tokens = book();
  for (const [what, sent, fault] of WRONG) assert.equal(tokens.grantOf(sent, NOW_MS), fault, what);
});

test('a few seconds between clocks do not matter, and after a jump the clock decides as before', () => {
  const tokens = book();
  for (const more of [{ exp: NOW - 29 }, { nbf: NOW + 29 }, { aud: ['kafka', RULES.audience] }])
    assert.equal(typeof tokens.grantOf(good(more), NOW_MS), 'object');
  const hourMs = 3_600_000;
  assert.equal(tokens.grantOf(good({ nbf: NOW }), NOW_MS - hourMs), 'not-yet-valid');
  assert.equal(tokens.grantOf(good(), NOW_MS + hourMs), 'expired');
  assert.equal(typeof tokens.grantOf(good(), NOW_MS), 'object');
});

test('a subject stands for the id of a token that has none, and is revoked like one', () => {
  const sent = good({ jti: undefined, sub: 'browser' });
  const grant = book().grantOf(sent, NOW_MS);
  assert(typeof grant === 'object' && grant.id === 'browser');
  assert.equal(book(SET, ['browser']).grantOf(sent, NOW_MS), 'revoked');
});

test('grants are held until their key or their id goes', () => {
  const tokens = book();
  const grant = tokens.grantOf(good(), NOW_MS);
  assert(typeof grant === 'object');
  assert.equal(tokens.holds({ ...grant }), false, 'a grant that it did not give');
  tokens.replace({ keys: keysOf(SET), revoked: ['another'] });
  assert.equal(tokens.holds(grant), true);
  tokens.replace({ keys: keysOf(SET), revoked: ['agent-1'] });
  assert.equal(tokens.holds(grant), false);
  tokens.replace({ keys: keysOf(pemOf(EC.publicKey)), revoked: [] });
  assert.equal(tokens.holds(grant), false);
  assert.equal(tokens.grantOf(good(), NOW_MS), 'wrong-algorithm');
});

test('keys without names are tried while they are few', () => {
  const others = Array.from({ length: JWT_TRIES_MAX }, () => pemOf(generateKeyPairSync('ed25519').publicKey));
  const few = book([...others.slice(1), pemOf(ED.publicKey)].join('\n'));
  assert.equal(typeof few.grantOf(good(), NOW_MS), 'object');
  assert.equal(typeof few.grantOf(token({ alg: 'EdDSA' }, CLAIMS, sealed), NOW_MS), 'object');
  assert.equal(few.grantOf(token(HEAD, CLAIMS, signer(OTHER_ED.privateKey)), NOW_MS), 'wrong-signature');
  const many = book([...others, pemOf(ED.publicKey)].join('\n'));
  assert.equal(many.grantOf(good(), NOW_MS), 'ambiguous-key');
});

test('keys of a file are public ones of these kinds, as PEM or JWK', () => {
  const refused = (text: string): string => {
    const parsed = parseKeyFile(text);
    return parsed.ok ? 'taken' : parsed.reason;
  };
  const privatePem = ED.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const oneKey = (key: object): string => JSON.stringify({ keys: [key] });
  const cases: readonly (readonly [string, RegExp])[] = [
    [SET, /^taken$/],
    [JSON.stringify(jwk(ED.publicKey)), /^taken$/],
    [`# of the issuer\n${pemOf(EC.publicKey)}${pemOf(RSA.publicKey)}`, /^taken$/],
    ['', /neither PEM nor JSON/],
    ['{}', /neither a JWK nor a set/],
    // The issuer withdrew its last key.
    ['{"keys": []}', /^taken$/],
    [privatePem, /key 1 is a private key/],
    [oneKey(ED.privateKey.export({ format: 'jwk' })), /key 1 holds a secret/],
    [oneKey({ kty: 'oct', k: 'c2VjcmV0' }), /key 1 holds a secret/],
    [oneKey({ kty: 'OKP' }), /key 1 cannot be read/],
    ['{"keys": [null]}', /key 1 is no JWK/],
    [oneKey(jwk(ED.publicKey, { kid: '' })), /kid/],
    [oneKey(jwk(ED.publicKey, { use: 'enc' })), /not for signatures/],
    [oneKey(jwk(EC.publicKey, { alg: 'RS256' })), /its tokens would be ES256/],
    [pemOf(generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey), /none of Ed25519, P-256, or RSA/],
    [pemOf(generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey), /none of Ed25519/],
    [pemOf(generateKeyPairSync('ed448').publicKey), /none of Ed25519/],
    [JSON.stringify({ keys: ['a', 'a'].map((kid) => jwk(ED.publicKey, { kid })) }), /^taken$/],
    [pemOf(ED.publicKey).repeat(JWT_KEYS_MAX + 1), /are the most/],
    ['-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----', /key 1 cannot be read/],
  ];
  for (const [text, expected] of cases) assert.match(refused(text), expected, text.slice(0, 200));
});

test('a key server may sign other things, too', () => {
  const mixed = JSON.stringify({
    keys: [{ kty: 'OKP', crv: 'X25519' }, jwk(ED.publicKey, { kid: 'ed' }), { kty: 'EC', use: 'enc' }],
  });
  const parsed = parseJwks(mixed, 'usable');
  assert(parsed.ok);
  assert.deepEqual(
    parsed.keys.map(({ id, algorithm }) => [id, algorithm]),
    [['ed', 'EdDSA']],
  );
  assert.equal(createPublicKey(parsed.keys[0]?.pem ?? '').asymmetricKeyType, 'ed25519');
  assert.deepEqual(parseJwks('{"keys": [{"kty": "OKP"}]}', 'usable'), { ok: true, keys: [] });
});
