// Settings of tokens that an issuer signs: what must be said with what, and mistakes that would open a node.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { JwtConfig } from '../../src/config/jwt.ts';
import { loadConfig } from '../../src/config/load.ts';

const PAIR = generateKeyPairSync('ed25519');
const PUBLIC = PAIR.publicKey.export({ type: 'spki', format: 'pem' }).toString();
const RULES = 'jwt_issuer = "https://id.example"\njwt_audience = "millrace"\n';
const URL_LINE = 'jwks_url = "https://id.example/keys"\n';

function load(t: TestContext, http: string, keys = PUBLIC): ReturnType<typeof loadConfig> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-jwt-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [config, file] = [join(folder, 'millrace.toml'), join(folder, 'keys.pem')];
  writeFileSync(file, keys);
  writeFileSync(config, `[http]\n${http.replaceAll('KEYS', `jwt_keys_file = "${file}"\n`)}`);
  return loadConfig(['--config', config], {});
}

function jwtOf(t: TestContext, http: string): JwtConfig {
  const jwt = load(t, http).http.tokens?.jwt;
  assert(jwt !== undefined);
  return jwt;
}

test('keys of a file, of a server, or of both, with what each token must say', (t) => {
  const { keys, ...rules } = jwtOf(t, `KEYS${RULES}`);
  assert.deepEqual(rules, {
    ...{ issuer: 'https://id.example', audience: 'millrace', clockSkewMs: 30_000 },
    keyServer: undefined,
  });
  assert.deepEqual(
    keys.map(({ algorithm, pem }) => [algorithm, pem]),
    [['EdDSA', PUBLIC]],
  );
  const both = jwtOf(t, `KEYS${URL_LINE}${RULES}jwt_clock_skew = "0s"\n`);
  assert.deepEqual([both.keys.length, both.keyServer, both.clockSkewMs], [1, 'https://id.example/keys', 0]);
  assert.equal(jwtOf(t, `jwks_url = "http://127.0.0.1:8080/keys"\n${RULES}`).keys.length, 0);
});

test('a client plane that trusts an issuer asks for a token', (t) => {
  assert.deepEqual(load(t, `KEYS${RULES}`).http.corsOrigins, ['*']);
  const listen = '[server]\nlisten = "0.0.0.0:4437"\n';
  assert.equal(load(t, `KEYS${RULES}${listen}`).server.listen.host, '0.0.0.0');
  assert.throws(() => load(t, `KEYS${RULES}read_cache = "public"\n`), /read_cache = "public" with .*http\.jwt_issuer/);
});

test('what is missing or would open the node is refused in a sentence', (t) => {
  const cases: readonly (readonly [http: string, expected: RegExp])[] = [
    [RULES, /http\.jwt_issuer without keys: http\.jwt_keys_file or http\.jwks_url/],
    ['jwt_audience = "x"\n', /http\.jwt_audience without keys/],
    ['KEYSjwt_audience = "x"\n', /http\.jwt_issuer is not set/],
    ['KEYSjwt_issuer = "x"\n', /http\.jwt_audience is not set/],
    [`jwks_url = "http://id.example/keys"\n${RULES}`, /expected https, or an address of this host/],
    [`jwks_url = "https://user:word@id.example/keys"\n${RULES}`, /http\.jwks_url \(not shown\)/],
    [`jwt_keys_file = "/nowhere/keys.pem"\n${RULES}`, /"\/nowhere\/keys\.pem": cannot be read/],
    [`KEYS${RULES}jwt_clock_skew = "1h"\n`, /http\.jwt_clock_skew/],
  ];
  for (const [http, expected] of cases) assert.throws(() => load(t, http), expected, http);
  assert.throws(() => load(t, `KEYS${RULES}`, PUBLIC + PUBLIC.slice(0, 60)), /block 2, at line \d+, is cut off/);
  const secret = PAIR.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  assert.throws(
    () => load(t, `KEYS${RULES}`, secret),
    (error: Error) =>
      /key 1 is a private key: give nodes the public one only/.test(error.message) && !error.message.includes('MC4C'),
  );
});
