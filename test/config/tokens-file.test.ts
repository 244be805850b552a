// The file of tokens with scopes: what it means, and that each mistake is refused with its place and without a secret.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ConfigError } from '../../src/config/error.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { TokenList } from '../../src/base/scopes.ts';

const SECRET = 'd41d8cd98f00b204e9800998ecf8427e';
const DIGEST = createHash('sha256').update(SECRET).digest('hex');
const SCOPE = '[[tokens.scopes]]\nbucket = "shop"\noperations = ["read"]\n';
const ENTRY = `[[tokens]]\nid = "ci"\nsha256 = "${DIGEST}"\n`;

function load(t: TestContext, text: string, more = ''): ReturnType<typeof loadConfig> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-tokens-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [config, file] = [join(folder, 'millrace.toml'), join(folder, 'tokens.toml')];
  writeFileSync(file, text);
  writeFileSync(config, `[http]\ntokens_file = "${file}"\n${more}`);
  return loadConfig(['--config', config], {});
}

function listOf(t: TestContext, text: string): TokenList {
  const { tokens } = load(t, text).http;
  assert(tokens !== undefined);
  return tokens.list;
}

test('tokens, their scopes and those that are revoked', (t) => {
  const list = listOf(
    t,
    `revoked = ["old"]
    [[tokens]]
    id = "ci"
    sha256 = "${DIGEST.toUpperCase()}"
    expires_at = 2027-01-31T12:00:00+02:00
    [[tokens.scopes]]
    bucket = "shop"
    streams = "orders-*"
    operations = ["read", "list"]
    [[tokens.scopes]]
    bucket = "*"
    operations = ["append"]
    [[tokens]]
    id = "shown"
    token = "${SECRET}x"
    expires_at = "2027-01-31T12:00:00.5Z"
    scopes = [{ bucket = "shop", operations = ["create"] }]`,
  );
  assert.deepEqual(list, {
    revoked: ['old'],
    tokens: [
      {
        ...{ id: 'ci', sha256: DIGEST, expiresAtMs: Date.UTC(2027, 0, 31, 10) },
        scopes: [
          { bucket: 'shop', streams: 'orders-*', operations: ['read', 'list'] },
          { bucket: '*', streams: '*', operations: ['append'] },
        ],
      },
      {
        ...{ id: 'shown', sha256: createHash('sha256').update(`${SECRET}x`).digest('hex') },
        expiresAtMs: Date.UTC(2027, 0, 31, 12, 0, 0, 500),
        scopes: [{ bucket: 'shop', streams: '*', operations: ['create'] }],
      },
    ],
  });
  assert.deepEqual(listOf(t, ''), { tokens: [], revoked: [] });
  const open = listOf(t, `${ENTRY}${SCOPE}`);
  assert.equal(open.tokens[0]?.expiresAtMs, undefined);
});

test('a client plane with the file asks for a token', (t) => {
  assert.deepEqual(load(t, '').http.corsOrigins, ['*']);
  const config = load(t, '', '[server]\nlisten = "0.0.0.0:4437"\n');
  assert.equal(config.server.listen.host, '0.0.0.0');
  assert.throws(() => load(t, '', 'read_cache = "public"\n'), /read_cache = "public" with http\.tokens_file/);
});

test('each mistake is refused with its place, and no token is shown', (t) => {
  const entry = (lines: string): string => `[[tokens]]\nid = "ci"\n${lines}\n${SCOPE}`;
  const cases: readonly (readonly [string, RegExp])[] = [
    ['tokens = 1', /tokens\.toml: tokens: expected tables/],
    ['token = []', /tokens\.toml: token: unknown key/],
    ['[[tokens]]\nid = 1\n', /tokens\[0\]\.id: expected an id/],
    [`[[tokens]]\nid = "a b"\n`, /tokens\[0\]\.id: expected an id/],
    [`[[tokens]]\nid = "${'a'.repeat(65)}"\n`, /tokens\[0\]\.id: expected an id/],
    [ENTRY, /tokens\[0\]\.scopes: expected a list of at least one scope/],
    [`${ENTRY}scopes = []`, /tokens\[0\]\.scopes: expected a list/],
    [`${ENTRY}${SCOPE}strem = "x"`, /tokens\[0\]\.scopes\[0\]\."strem": unknown key/],
    [`${ENTRY}scope = []\n${SCOPE}`, /tokens\[0\]\.scope: unknown key/],
    [
      `${ENTRY}${SCOPE}${ENTRY.replace(DIGEST, 'a'.repeat(64))}${SCOPE}`,
      /tokens\[1\]\.id: the same as that of tokens\[0\]/,
    ],
    [`${ENTRY}${SCOPE}${ENTRY.replace('ci', 'cd')}${SCOPE}`, /tokens\[1\]\.sha256: the same as that of tokens\[0\]/],
    [`${ENTRY}role = "observe"\n`, /its tokens have roles, which are for the plane of http\.admin_tokens_file/],
    [`${ENTRY}role = "observe"\n${SCOPE}`, /tokens\[0\]: give either scopes or a role/],
    [`${ENTRY}role = "Observe"\n`, /tokens\[0\]\.role: expected one of observe, operate, destroy/],
    [`${ENTRY}role = ["observe"]\n`, /tokens\[0\]\.role: expected one of/],
    [
      `${ENTRY}${SCOPE}[[tokens]]\nid = "cd"\nsha256 = "${'a'.repeat(64)}"\nrole = "observe"\n`,
      /tokens\[1\]: a file has tokens with scopes or tokens with roles, not both/,
    ],
    [entry(''), /tokens\[0\]: give either sha256 or token/],
    [entry(`sha256 = "${DIGEST}"\ntoken = "${SECRET}"`), /tokens\[0\]: give either sha256 or token/],
    [entry(`sha256 = "${SECRET}"`), /tokens\[0\]\.sha256 \(not shown\): expected the SHA-256/],
    [entry('sha256 = 7'), /tokens\[0\]\.sha256/],
    [entry('token = "hunter2"'), /tokens\[0\]\.token \(not shown\): it has \d+ bits of entropy/],
    [entry(`token = "${SECRET} ${SECRET}"`), /tokens\[0\]\.token \(not shown\): expected visible ASCII/],
    [entry(`token = "${'é'.repeat(40)}"`), /tokens\[0\]\.token \(not shown\): expected visible ASCII/],
    [entry(`token = "${SECRET.repeat(300)}"`), /tokens\[0\]\.token \(not shown\): .* at most 8192/],
    [`${ENTRY}expires_at = 2027-01-31T12:00:00\n${SCOPE}`, /tokens\[0\]\.expires_at: expected a moment with its zone/],
    [`${ENTRY}expires_at = 2027-01-31\n${SCOPE}`, /tokens\[0\]\.expires_at/],
    [`${ENTRY}expires_at = "tomorrow"\n${SCOPE}`, /tokens\[0\]\.expires_at/],
    [`${ENTRY}expires_at = 1798718400\n${SCOPE}`, /tokens\[0\]\.expires_at/],
    ['revoked = "ci"', /tokens\.toml: revoked: expected a list/],
    ['revoked = [1]', /revoked\[0\]: expected an id/],
    [`[[tokens]]\nid = "ci"\ntoken = "${SECRET}`, /tokens\.toml:3:\d+: not valid TOML/],
  ];
  for (const [text, sentence] of cases) {
    assert.throws(
      () => load(t, text),
      (error) => {
        assert(error instanceof ConfigError, String(error));
        assert.match(error.message, sentence);
        assert(!error.message.includes(SECRET) && !error.message.includes('hunter2'), error.message);
        return true;
      },
      text,
    );
  }
});

test('a file of tokens with roles guards the admin plane', (t) => {
  const file = join(mkdtempSync(join(tmpdir(), 'millrace-roles-')), 'tokens.toml');
  t.after(() => rmSync(join(file, '..'), { recursive: true }));
  writeFileSync(file, `revoked = ["old"]\n${ENTRY}role = "operate"\n`);
  const { http } = load(t, '', `admin_tokens_file = "${file}"\n[server]\nadmin_listen = "0.0.0.0:4438"\n`);
  assert.deepEqual(http.adminTokens, {
    revoked: ['old'],
    tokens: [{ id: 'ci', sha256: DIGEST, expiresAtMs: undefined, scopes: [], role: 'operate' }],
  });
  writeFileSync(file, `${ENTRY}${SCOPE}`);
  assert.throws(() => load(t, '', `admin_tokens_file = "${file}"\n`), /admin_tokens_file = .* have scopes/);
});
