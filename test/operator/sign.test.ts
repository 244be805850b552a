// `millracectl sign`: what it prints opens one stream for a while, and what it cannot sign it says.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type CtlResult, ctl } from '../support/ctl.ts';
import { bearer, listed, textOf } from '../support/scoped-tokens.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';

const folder = temporaryFolder('sign-verb');
const [keyFile, tokensFile] = [join(folder, 'key.pem'), join(folder, 'tokens.toml')];
const TOKENS = `tokens_file = "${tokensFile}"\n`;
const server = new TestServer({ cores: 1, groups: 2, http: `${TOKENS}signing_key_file = "${keyFile}"` });
const plain = new TestServer({ cores: 1, groups: 2, http: TOKENS });
const env = { MILLRACE_CLIENT_TOKEN: textOf('tenant') };

before(async () => {
  const { privateKey } = generateKeyPairSync('ed25519');
  writeFileSync(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  const { id, sha256 } = listed('tenant', []);
  const scope = (bucket: string): string =>
    `[[tokens.scopes]]\nbucket = "${bucket}"\noperations = ["create", "read", "snapshot"]\n`;
  writeFileSync(tokensFile, `[[tokens]]\nid = "${id}"\nsha256 = "${sha256}"\n${scope('shop')}${scope('_default')}`);
  await Promise.all([server.start(), plain.start()]);
  for (const path of ['shop/a%2F*', '_default/log']) {
    const answer = await fetch(`${server.url}/${path}`, {
      method: 'PUT',
      headers: bearer('tenant'),
      body: `in ${path}`,
    });
    assert.equal(answer.status, 201);
  }
});
after(async () => {
  await Promise.all([server.dispose(), plain.dispose()]);
  removeFolder(folder);
});

const sign = (url: string, ...more: readonly string[]): Promise<CtlResult> => ctl(['sign', url, ...more], { env });

test('a signed URL opens what it names, however its path is written, and nothing else', async () => {
  const cases = [
    ['/shop/a%2F*?offset=-1', 'in shop/a%2F*'],
    ['/v1/stream/shop/a/*', 'in shop/a%2F*'],
    ['/v1/stream/log', 'in _default/log'],
    ['/shop/a%2F*/bootstrap', 'in shop/a%2F*'],
  ] as const;
  for (const [path, holds] of cases) {
    const { code, stdout, stderr } = await sign(`${server.url}${path}`, '--for', '15m');
    assert.equal(code, 0, stderr);
    assert.match(stderr, /^token [0-9a-f]{32}, valid until 20\d\d-.*:\n$/);
    const url = stdout.trim();
    assert(url.startsWith(`${server.url}${path}${path.includes('?') ? '&' : '?'}access_token=`), url);
    const answer = await fetch(url);
    assert.equal(answer.status, 200, path);
    assert((await answer.text()).includes(holds), path);
    const { search } = new URL(url);
    assert.equal((await fetch(`${server.url}/shop/other${search}`)).status, 404);
  }
  const { stdout } = await sign(`${server.url}/shop/new`, '--for', '90s', '-o', 'json');
  const { url, id, expires_at: end } = JSON.parse(stdout) as Record<string, string>;
  assert.match(`${url} ${id}`, /\/shop\/new\?access_token=[\w.-]+ [0-9a-f]{32}$/);
  assert(Math.abs(Date.parse(end ?? '') - Date.now() - 90_000) < 60_000, end);
  // The nodes that are named are asked, and the URL stays what it was.
  const front = await sign('https://streams.example/shop/new', '--url', server.url);
  assert.match(front.stdout, /^https:\/\/streams\.example\/shop\/new\?access_token=/);
});

test('what cannot be signed is refused in words', async () => {
  const cases: readonly (readonly [args: readonly string[], code: number, why: RegExp])[] = [
    [['shop/log'], 2, /expected an http:\/\/ or https:\/\/ address/],
    [[server.url], 2, /expected the path of a stream/],
    [[`${server.url}/shop`], 2, /expected the path of a stream/],
    [[`${server.url}/shop/a/attrs`], 2, /not of a stream, its snapshots or bootstrap/],
    [[`${server.url}/shop/%zz`], 2, /URI malformed/],
    [[`${server.url}/shop/a?access_token=x`], 2, /has a token already/],
    [[`${server.url}/shop/a#end`], 2, /without a user name, a password or a part behind #/],
    [['http://me:secret@127.0.0.1/shop/a'], 2, /^[^@]*sign 127\.0\.0\.1: expected a URL without(?!.*secret)/],
    [[`${server.url}/__svc/tokens`], 2, /names that begin with __ are reserved/],
    [[`${server.url}/v1/stream/__ds/subscriptions/s`], 2, /names that begin with __ are reserved/],
    [[`${server.url}/shop/a`, '--for', '25h'], 2, /--for 25h: expected seconds from 1 to 86400/],
    [
      ['https://streams.example/shop/a'],
      2,
      /the token would go to https:\/\/streams\.example: name the nodes to ask, such as --url https:\/\/streams\.example/,
    ],
    [['http://127.0.0.1.evil.example/shop/a'], 2, /the token would go to http:\/\/127\.0\.0\.1\.evil\.example/],
    [[`${server.url}/vault/a`], 1, /no scope of the token covers read/],
    [[`${plain.url}/shop/a`], 1, /http\.signing_key_file gives them a key/],
  ];
  for (const [args, code, why] of cases) {
    const ended = await ctl(['sign', ...args], { env });
    assert.equal(ended.code, code, `${args.join(' ')}: ${ended.stderr}`);
    assert.match(ended.stderr, why);
    assert.equal(ended.stdout, '');
  }
});
