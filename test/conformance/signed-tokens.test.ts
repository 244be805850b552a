// Tokens that an issuer signs, against a real process: with keys of a file, which SIGHUP reads again, and of a server.
import assert from 'node:assert/strict';
import { type KeyObject, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createSigner } from 'fast-jwt';
import type { Scope } from '../../src/base/scopes.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';
import { scopeOf } from '../support/scoped-tokens.ts';
import { TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';
import { APPEND, DELETE, DONE, REFUSED, SessionClient, TEXT } from '../session/client.ts';

const folder = temporaryFolder('signed');
const [keysFile, tokensFile] = [join(folder, 'keys.pem'), join(folder, 'tokens.toml')];
const [ISSUER, AUDIENCE] = ['https://issuer.example', 'millrace'];
const ROOT = 'root-0123456789abcdef0123456789abcdef';
const [OURS, NEXT, PUBLISHED] = [keyPair(), keyPair(), keyPair()];
const JSON_SET = { 'content-type': 'application/jwk-set+json' };
const keyServer = createServer((_, response) => {
  const keys = [{ ...PUBLISHED.publicKey.export({ format: 'jwk' }), kid: 'published' }];
  response.writeHead(200, JSON_SET).end(JSON.stringify({ keys }));
});
let server: TestServer;

function keyPair(): { readonly publicKey: KeyObject; readonly privateKey: KeyObject } {
  return generateKeyPairSync('ed25519');
}

interface Wish {
  readonly key?: KeyObject;
  readonly kid?: string;
  readonly id?: string;
  readonly seconds?: number;
}

function signed(
  scopes: readonly Scope[],
  { key = OURS.privateKey, kid, id = 'agent', seconds = 600 }: Wish = {},
): string {
  const sign = createSigner({
    key: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    ...{ iss: ISSUER, aud: AUDIENCE, jti: id },
    ...(kid === undefined ? {} : { kid }),
  });
  return sign({ scopes, exp: Math.floor(Date.now() / 1000) + seconds });
}

function writeFiles(keys: readonly KeyObject[], revoked: readonly string[] = []): void {
  const pems = keys.map((key) => key.export({ type: 'spki', format: 'pem' }).toString());
  for (const [path, text] of [
    [keysFile, pems.join('')],
    [tokensFile, `revoked = ${JSON.stringify(revoked)}\n`],
  ] as const) {
    writeFileSync(`${path}.new`, text, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  }
}

async function ask(token: string, method: string, path: string, body?: string): Promise<RawResponse> {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'text/plain' };
  return await requestOnce(server.port, method, path, headers, body);
}

before(async () => {
  keyServer.listen(0, '127.0.0.1');
  await once(keyServer, 'listening');
  const address = keyServer.address();
  assert(address !== null && typeof address === 'object');
  writeFiles([OURS.publicKey]);
  server = new TestServer({
    ...{ process: true, cores: 1, groups: 4, longPollTimeout: '60s' },
    http: [
      `client_token = "${ROOT}"`,
      `tokens_file = "${tokensFile}"`,
      `jwt_keys_file = "${keysFile}"`,
      `jwks_url = "http://127.0.0.1:${address.port}/keys"`,
      `jwt_issuer = "${ISSUER}"`,
      `jwt_audience = "${AUDIENCE}"`,
      'jwt_clock_skew = "0s"',
    ].join('\n'),
  });
  await server.start();
  for (const stream of ['agent-1', 'other']) assert.equal((await ask(ROOT, 'PUT', `/chat/${stream}`)).status, 201);
});

after(async () => {
  await server.dispose();
  keyServer.close();
  removeFolder(folder);
});

const AGENT = [scopeOf('chat', 'agent-*', 'read', 'append')];

test('a signed token opens what its claim says, and what is refused says why', async () => {
  const token = signed(AGENT);
  assert.equal((await ask(token, 'POST', '/chat/agent-1', 'hello')).status, 204);
  assert.equal((await ask(token, 'GET', '/chat/agent-1?offset=-1')).body.toString(), 'hello');
  assert.equal((await ask(token, 'GET', '/chat/other?offset=-1')).status, 404);
  const denied = await ask(token, 'DELETE', '/chat/agent-1');
  assert.equal(denied.status, 403);
  assert.match(denied.headers.get('www-authenticate') ?? '', /insufficient_scope/);
  for (const [sent, why] of [
    [signed(AGENT, { seconds: -1 }), /the token has expired/],
    [signed(AGENT, { key: NEXT.privateKey }), /the signature of the token is wrong/],
    [signed(AGENT, { kid: 'published' }), /the signature of the token is wrong/],
    [`${token.slice(0, -8)}AAAAAAAA`, /the signature of the token is wrong/],
    [signed([]), /no list of scopes/],
    ['eyJhbGciOiJub25lIn0.e30.', /another issuer/],
  ] as const) {
    const { status, headers, body } = await ask(sent, 'GET', '/chat/agent-1?offset=-1');
    assert.equal(status, 401, sent);
    assert.match(body.toString(), why);
    // RFC 9110: within quotes are neither quotes nor backslashes.
    assert.match(headers.get('www-authenticate') ?? '', /^Bearer error="invalid_token", error_description="[^"\\]+"$/);
  }
  const metrics = await server.metrics();
  assert.deepEqual([metrics['token_invalid'], metrics['token_expired']], [5, 1]);
});

test('a flood of wrong tokens is verified no further, and tokens that were verified before go on', async () => {
  const wrong = signed(AGENT, { key: NEXT.privateKey });
  const good = signed(AGENT);
  assert.equal((await ask(good, 'GET', '/chat/agent-1')).status, 200);
  let refused: RawResponse | undefined;
  for (let round = 0; round < 100 && refused === undefined; round++) {
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(wrong, 'GET', '/chat/agent-1')));
    refused = answers.find(({ status }) => status !== 401);
  }
  assert.deepEqual(
    [refused?.status, refused?.headers.get('millrace-error'), refused?.headers.get('retry-after')],
    [429, 'TOKEN_FAILURES', '1'],
  );
  assert.equal((await ask(good, 'GET', '/chat/agent-1')).status, 200);
  await until('they are looked at again', async () => (await ask(wrong, 'GET', '/chat/agent-1')).status === 401);
});

test('keys of the server count beside those of the file', async () => {
  const token = signed(AGENT, { key: PUBLISHED.privateKey, kid: 'published' });
  await until('the keys of the server', async () => (await ask(token, 'GET', '/chat/agent-1')).status === 200);
});

test('a session takes a signed token, and has its rights', async () => {
  const session = await SessionClient.connect(server.port, {
    protocol: `millrace.session.v1, millrace.bearer.${signed(AGENT)}`,
  });
  assert.equal((await session.ask(APPEND, 1, 'chat', 'agent-1', 'x', TEXT)).kind, DONE);
  const refused = await session.ask(DELETE, 2, 'chat', 'agent-1', {});
  assert.deepEqual([refused.kind, refused.code], [REFUSED, 'INSUFFICIENT_SCOPE']);
  session.destroy();
});

test('live readers end when their key, or the id of their token, is withdrawn', async () => {
  const follow = async (token: string): Promise<Promise<RawResponse>> => {
    const { headers } = await ask(ROOT, 'HEAD', '/chat/agent-1');
    const tail = headers.get('stream-next-offset') ?? '';
    return ask(token, 'GET', `/chat/agent-1?offset=${tail}&live=long-poll&timeout_ms=60000`);
  };
  const waiting = async (count: number): Promise<void> => {
    await until(`${count} readers`, async () => (await server.metrics())['long_poll_waiters'] === count);
  };
  const [old, lost, kept] = [
    signed(AGENT),
    signed(AGENT, { key: NEXT.privateKey, id: 'lost' }),
    signed(AGENT, { key: NEXT.privateKey }),
  ];
  writeFiles([OURS.publicKey, NEXT.publicKey]);
  assert.equal((await server.hangUp())['tokens'], 'changed');
  const readers = [follow(old), follow(lost), follow(kept)];
  await waiting(3);
  writeFiles([NEXT.publicKey], ['lost']);
  await server.hangUp();
  const ended = await within(Promise.all(readers.slice(0, 2)), PATIENCE_MS, 'the end of two readers');
  assert.deepEqual(
    ended.map(({ status }) => status),
    [401, 401],
  );
  await waiting(1);
  assert.equal((await ask(kept, 'POST', '/chat/agent-1', '!')).status, 204);
  assert.equal((await readers[2])?.body.toString(), '!');
  assert.match((await ask(lost, 'GET', '/chat/agent-1')).body.toString(), /revoked/);
  assert.equal((await ask(old, 'GET', '/chat/agent-1')).status, 401);
});

test('keys that cannot be used leave those before', async () => {
  writeFileSync(keysFile, 'no key');
  assert.match(String((await server.hangUp())['reason']), /http\.jwt_keys_file = .*: it holds neither PEM nor JSON/);
  assert.equal((await ask(signed(AGENT, { key: NEXT.privateKey }), 'GET', '/chat/agent-1')).status, 200);
});
