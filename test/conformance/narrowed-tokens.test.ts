// Tokens that nodes sign for holders of others, against a real process: what they open, in headers and in URLs, and that
// they end with the token from which they were made.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type HeaderList, type RawResponse, requestOnce } from '../support/raw-client.ts';
import { bearer, listed } from '../support/scoped-tokens.ts';
import { TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';
import { DONE, GO_AWAY, READ, REFUSED, SUBSCRIBE, SessionClient } from '../session/client.ts';

const folder = temporaryFolder('narrowed');
const [tokensFile, keysFile, rootFile] = [join(folder, 'tokens.toml'), join(folder, 'keys.pem'), join(folder, 'root')];
const [ROOT, NEXT_ROOT] = ['root-0123456789abcdef0123456789abcdef', 'next-0123456789abcdef0123456789abcdef'];
const [OLD_KEY, NEW_KEY] = [signingKey(), signingKey()];
const server = new TestServer({
  ...{ process: true, cores: 1, groups: 4, longPollTimeout: '60s' },
  http: `client_token_file = "${rootFile}"\ntokens_file = "${tokensFile}"\nsigning_key_file = "${keysFile}"`,
});

function signingKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

interface Files {
  readonly root?: string;
  readonly keys?: readonly string[];
  readonly revoked?: readonly string[];
  readonly operations?: readonly string[];
  readonly hasEntry?: boolean;
}

function write({
  root = ROOT,
  keys = [OLD_KEY],
  revoked = [],
  operations = ['read', 'append'],
  hasEntry = true,
}: Files): void {
  const { id, sha256 } = listed('tenant', []);
  const scope = `[[tokens.scopes]]\nbucket = "shop"\nstreams = "a-*"\noperations = ${JSON.stringify(operations)}\n`;
  const entry = hasEntry ? `[[tokens]]\nid = "${id}"\nsha256 = "${sha256}"\n${scope}` : '';
  const files = [
    [rootFile, root],
    [keysFile, keys.join('')],
    [tokensFile, `revoked = ${JSON.stringify(revoked)}\n${entry}`],
  ] as const;
  for (const [path, text] of files) {
    writeFileSync(`${path}.new`, text, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  }
}

async function change(files: Files): Promise<void> {
  write(files);
  assert.equal((await server.hangUp())['msg'], 'reloaded');
}

const BY_ROOT = { Authorization: `Bearer ${ROOT}` };
const BY_TENANT = bearer('tenant');
const by = (token: string): HeaderList => ({ Authorization: `Bearer ${token}` });

async function ask(headers: HeaderList, method: string, path: string, body = ''): Promise<RawResponse> {
  return await requestOnce(server.port, method, path, { 'Content-Type': 'text/plain', ...headers }, body);
}

interface Made {
  readonly id: string;
  readonly token: string;
  readonly expires_at: string;
}

const scope = (stream: string, ...operations: readonly string[]): object => ({ bucket: 'shop', stream, operations });

async function narrow(headers: HeaderList, scopes: readonly object[], more: object = {}): Promise<Made> {
  const { status, body } = await ask(
    headers,
    'POST',
    '/__svc/tokens',
    JSON.stringify({ scopes, expires_in: 600, ...more }),
  );
  assert.equal(status, 201, body.toString());
  return JSON.parse(body.toString()) as Made;
}

async function link(headers: HeaderList, stream = 'a-1'): Promise<string> {
  return (await narrow(headers, [scope(stream, 'read')], { use: 'url' })).token;
}

async function metric(name: string): Promise<unknown> {
  return (await server.metrics())[name];
}

before(async () => {
  write({});
  await server.start();
  for (const stream of ['a-1', 'a-2', 'b-1']) {
    assert.equal((await ask(BY_ROOT, 'PUT', `/shop/${stream}`, `first of ${stream}`)).status, 201);
  }
});
after(async () => {
  await server.dispose();
  removeFolder(folder);
});

test('a holder gets a token with fewer rights, and none that it has not', async () => {
  const { token, expires_at: end } = await narrow(BY_TENANT, [scope('a-1', 'read')], { expires_in: 90 });
  assert(Math.abs(Date.parse(end) - Date.now() - 90_000) < 60_000, end);
  assert.equal((await ask(by(token), 'GET', '/shop/a-1')).body.toString(), 'first of a-1');
  assert.equal((await ask(by(token), 'GET', '/shop/a-2')).status, 404);
  assert.equal((await ask(by(token), 'POST', '/shop/a-1', 'x')).status, 403);
  const cases: readonly (readonly [headers: HeaderList, body: string, status: number, why: RegExp])[] = [
    [
      BY_TENANT,
      JSON.stringify({ scopes: [scope('b-1', 'read')], expires_in: 9 }),
      403,
      /no scope of the token covers read/,
    ],
    [by(token), JSON.stringify({ scopes: [scope('a-1', 'append')], expires_in: 9 }), 403, /covers append/],
    [
      by(token),
      JSON.stringify({ scopes: [{ bucket: 'shop', operations: ['read'] }], expires_in: 9 }),
      403,
      /covers read/,
    ],
    [BY_TENANT, '{}', 400, /expires_in/],
    [BY_TENANT, 'x'.repeat(16_384), 400, /no JSON/],
    [BY_TENANT, 'x'.repeat(16_385), 413, /./],
    [{}, '{}', 401, /./],
  ];
  for (const [headers, body, status, why] of cases) {
    const answer = await ask(headers, 'POST', '/__svc/tokens', body);
    assert.equal(answer.status, status, answer.body.toString());
    assert.match(answer.body.toString(), why);
  }
  const below = await narrow(by(token), [scope('a-1', 'read')], { expires_in: 5000 });
  assert(Date.parse(below.expires_at) <= Date.parse(end), 'it ends no later than its parent');
  assert.equal((await ask(by(below.token), 'GET', '/shop/a-1')).status, 200);
});

test('live readers and sessions of a child end when the token above is revoked, goes, or loses the right', async () => {
  const ends: readonly Files[] = [{ revoked: ['tenant'] }, { hasEntry: false }, { operations: ['append'] }];
  for (const files of ends) {
    const { token } = await narrow(by((await narrow(BY_TENANT, [scope('a-1', 'read')])).token), [scope('a-1', 'read')]);
    const linked = await link(BY_TENANT);
    const session = await SessionClient.connect(server.port, {
      protocol: `millrace.session.v1, millrace.bearer.${token}`,
    });
    const tail = 'offset=now&live=long-poll&timeout_ms=60000';
    const readers = [
      ask(by(token), 'GET', `/shop/a-1?${tail}`),
      ask({}, 'GET', `/shop/a-1?${tail}&access_token=${linked}`),
    ];
    await until('two readers', async () => (await metric('long_poll_waiters')) === 2);
    assert.equal((await session.ask(READ, 1, 'shop', 'a-1', {})).kind, DONE);
    await change(files);
    const ended = await within(Promise.all(readers), PATIENCE_MS, 'the end of the readers');
    assert.deepEqual(
      ended.map(({ status }) => status),
      [401, 401],
    );
    await session.until(() => session.told.some(({ kind }) => kind === GO_AWAY));
    session.destroy();
    assert.equal((await ask(by(token), 'GET', '/shop/a-1')).status, 401);
    await change({});
  }
});

test('a token that expires ends a live read and what a session follows with the same refusal', async () => {
  const { token } = await narrow(BY_TENANT, [scope('a-1', 'read')], { expires_in: 5 });
  const session = await SessionClient.connect(server.port, {
    protocol: `millrace.session.v1, millrace.bearer.${token}`,
  });
  session.send([SUBSCRIBE, 1, 'shop', 'a-1', 1000, { offset: 0 }]);
  const reader = await ask(by(token), 'GET', '/shop/a-1?offset=now&live=long-poll&timeout_ms=60000');
  await session.until(() => session.told.some(({ kind }) => kind === GO_AWAY));
  const { status, code, sentence } = await session.take(({ kind }) => kind === REFUSED);
  assert.deepEqual([reader.status, reader.headers.get('millrace-error')], [status, code]);
  assert.deepEqual([status, code], [401, 'UNAUTHORIZED']);
  assert.match(sentence, /the token has expired/);
  session.destroy();
});

test('another token with all rights ends the children of the one before, and a key that goes those that it signed', async () => {
  const all = await narrow(BY_ROOT, [scope('b-1', 'read')]);
  const kept = await narrow(BY_TENANT, [scope('a-1', 'read')]);
  await change({ root: NEXT_ROOT });
  const orphan = await ask(by(all.token), 'GET', '/shop/b-1');
  assert.equal(orphan.status, 401);
  assert.match(orphan.body.toString(), /from which this one was made is not valid any more/);
  assert.equal((await ask(by(kept.token), 'GET', '/shop/a-1')).status, 200);
  await change({});
  assert.equal((await ask(by(all.token), 'GET', '/shop/b-1')).status, 200, 'the token before is back');
  await change({ keys: [NEW_KEY, OLD_KEY] });
  assert.equal((await ask(by(all.token), 'GET', '/shop/b-1')).status, 200);
  const next = await narrow(BY_ROOT, [scope('b-1', 'read')]);
  await change({ keys: [NEW_KEY] });
  assert.match((await ask(by(all.token), 'GET', '/shop/b-1')).body.toString(), /key of the token .* is not known/);
  assert.equal((await ask(by(next.token), 'GET', '/shop/b-1')).status, 200);
  await change({ revoked: [next.id], keys: [NEW_KEY, OLD_KEY] });
  assert.match((await ask(by(next.token), 'GET', '/shop/b-1')).body.toString(), /revoked/);
  await change({});
});

test('a body that comes when the token with all rights is another one already makes no token', async () => {
  const wish = JSON.stringify({ scopes: [scope('b-1', 'read')], expires_in: 60 });
  const socket = connect(server.port, '127.0.0.1');
  await once(socket, 'connect');
  const head = `POST /__svc/tokens HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${ROOT}\r\nContent-Length: ${wish.length}\r\n\r\n`;
  socket.write(head + wish.slice(0, 1));
  // An answer on another connection: the node has read what was sent before.
  await ask(BY_ROOT, 'GET', '/shop/a-1');
  await change({ root: NEXT_ROOT });
  const answer = once(socket, 'data') as Promise<[Buffer]>;
  socket.write(wish.slice(1));
  assert.match((await within(answer, PATIENCE_MS, 'the answer'))[0].toString(), /^HTTP\/1\.1 401 /);
  socket.destroy();
  await change({});
});
