// Keys with which nodes sign tokens: what a file may hold, what it needs beside it, and that no key is shown.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { NODE_ISSUER } from '../../src/base/jwt-key.ts';
import { SIGNING_KEYS_MAX } from '../../src/base/limits.ts';
import { loadConfig } from '../../src/config/load.ts';

const ROOT = 'client_token = "root-0123456789abcdef0123456789abcdef"\n';

const privatePem = (): string =>
  generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

function load(t: TestContext, keys: string, http = ROOT): ReturnType<typeof loadConfig> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-signing-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [config, file] = [join(folder, 'millrace.toml'), join(folder, 'keys.pem')];
  writeFileSync(file, keys);
  writeFileSync(config, `[http]\n${http}signing_key_file = "${file}"\n`);
  return loadConfig(['--config', config], {});
}

test('keys in their order, each with an id of its own, beside any kind of token', (t) => {
  const [first, second] = [privatePem(), privatePem()];
  const { tokens } = load(t, `# the newest first\n${first}${second}`).http;
  assert.deepEqual(
    tokens?.signingKeys.map(({ secret }) => secret),
    [first, second],
  );
  const ids = tokens?.signingKeys.map(({ id }) => id) ?? [];
  assert(ids.every((id) => /^[\w-]{12}$/.test(id)) && new Set(ids).size === 2, ids.join(' '));
  assert.deepEqual(load(t, `${first}`).http.tokens?.signingKeys[0]?.id, ids[0], 'the same on every node');
  assert.deepEqual(load(t, first).http.corsOrigins, ['*'], 'the plane asks for a token');
});

test('what cannot sign is refused in a sentence that shows no key', (t) => {
  const pem = privatePem();
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const jwt = `jwt_issuer = "${NODE_ISSUER}"\njwt_audience = "x"\njwks_url = "https://id.example/keys"\n`;
  const cases: readonly (readonly [keys: string, expected: RegExp, http?: string])[] = [
    ['', /expected 1 to 8 private keys in PEM, and it has 0/],
    ['no key', /and it has 0/],
    [pem.repeat(SIGNING_KEYS_MAX + 1), /and it has 9/],
    [privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), /block 1 is no Ed25519 private key: "openssl/],
    [`${pem}${publicKey.export({ type: 'spki', format: 'pem' }).toString()}`, /block 2 is no Ed25519 private key/],
    [pem.replace(/\n[\w+/=]{8}/, '\nAAAAAAAA'), /block 1 is no Ed25519/],
    [pem + pem.slice(0, 60), /block 2, at line \d+, is cut off/],
    [pem, /no token from which others could be made; set http\.client_token_file/, ''],
    [pem, /http\.jwt_issuer = "urn:millrace:node": that is what nodes call themselves/, jwt],
  ];
  const [, secret = ''] = pem.split('\n');
  for (const [keys, expected, http = ROOT] of cases) {
    assert.throws(
      () => load(t, keys, http),
      (error: Error) => expected.test(error.message) && !error.message.includes(secret),
      String(expected),
    );
  }
});
