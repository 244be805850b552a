// Limits against a real process: of tokens in a file and of those made from them, of buckets, in sessions, and from files
// that SIGHUP reads again.
import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';
import { listed, textOf } from '../support/scoped-tokens.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';
import { APPEND, DONE, HEAD, READ, REFUSED, SUBSCRIBE, SessionClient, TEXT, UNSUBSCRIBE } from '../session/client.ts';

const folder = temporaryFolder('limits');
const [tokensFile, limitsFile, keyFile] = ['tokens.toml', 'limits.toml', 'key.pem'].map((name) => join(folder, name));
const ROOT = 'root-0123456789abcdef0123456789abcdef';
const server = new TestServer({
  ...{ process: true, cores: 1, groups: 4, longPollTimeout: '60s' },
  http: [
    `client_token = "${ROOT}"`,
    `tokens_file = "${tokensFile}"`,
    `limits_file = "${limitsFile}"`,
    `signing_key_file = "${keyFile}"`,
  ].join('\n'),
});

function put(path: string | undefined, text: string): void {
  assert(path !== undefined);
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** `limits`: of the token `till`. */
function putTokens(limits: string): void {
  const entry = (id: string, more: string): string =>
    `[[tokens]]\nid = "${id}"\nsha256 = "${listed(id, []).sha256}"\n${more}\n[[tokens.scopes]]\nbucket = "shop"\noperations = ["append", "read"]\n`;
  const subscriber = entry('subscriber', 'limits = { subscriptions = 2 }').replace(
    '\noperations = ["',
    '\nstreams = "jobs-*"\noperations = ["subscribe", "',
  );
  put(tokensFile, `${entry('till', limits)}${entry('other', '')}${subscriber}`);
}

async function ask(token: string, method: string, path: string, body?: string): Promise<RawResponse> {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'text/plain' };
  return await requestOnce(server.port, method, path, headers, body);
}

const KILOBYTE = 'limits = { bytes_per_second = 1000 }';

before(async () => {
  put(keyFile, generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  putTokens(KILOBYTE);
  put(limitsFile, '');
  await server.start();
  assert.equal((await ask(ROOT, 'PUT', '/shop/s')).status, 201);
});

after(async () => {
  await server.dispose();
  removeFolder(folder);
});

const WISH = JSON.stringify({ scopes: [{ bucket: 'shop', operations: ['append'] }], expires_in: 600 });

test('a token is held to its limits, and so is what was made from it', async () => {
  const till = textOf('till');
  const made = await ask(till, 'POST', '/__svc/tokens', WISH);
  assert.equal(made.status, 201);
  const { token: child } = JSON.parse(made.body.toString()) as { readonly token: string };
  assert.equal((await ask(child, 'POST', '/shop/s', 'x'.repeat(900_000))).status, 204);
  for (const token of [till, child]) {
    const refused = await ask(token, 'POST', '/shop/s', 'y');
    assert.deepEqual([refused.status, refused.headers.get('millrace-error')], [429, 'RATE_LIMITED']);
    assert(Number(refused.headers.get('retry-after')) > 300);
    assert.match(refused.body.toString(), /the token "till" has bytes_per_second = 1000 on this node/);
  }
  assert.equal((await ask(textOf('other'), 'POST', '/shop/s', 'z')).status, 204);
});

test('a session is held to the limits of its token, and of each bucket', async () => {
  const session = await SessionClient.connect(server.port, {
    protocol: `millrace.session.v1, millrace.bearer.${textOf('other')}`,
  });
  put(limitsFile, '[buckets.shop]\nbytes_per_second = 1\nlive_readers = 1\n');
  assert.equal((await server.hangUp())['limits'], 'changed');
  assert.equal((await session.ask(APPEND, 1, 'shop', 's', Buffer.from('x'.repeat(1000)), TEXT)).kind, DONE);
  const frames: readonly (readonly [number, number, ...(readonly unknown[])])[] = [
    [APPEND, 2, 'shop', 's', Buffer.from('x'), TEXT],
    [READ, 3, 'shop', 's', {}],
    [HEAD, 4, 'shop', 's'],
    [SUBSCRIBE, 5, 'shop', 's', 1024, { offset: 0 }],
  ];
  for (const frame of frames) {
    const refused = await session.ask(...frame);
    assert.deepEqual([refused.kind, refused.status, refused.code], [REFUSED, 429, 'RATE_LIMITED']);
    assert(Number(refused.fields['retry-after']) > 500);
    assert.match(refused.sentence, /the bucket "shop" has bytes_per_second = 1 on this node/);
  }
  put(limitsFile, '[buckets.shop]\nlive_readers = 1\n');
  assert.equal((await server.hangUp())['limits'], 'changed');
  session.send([SUBSCRIBE, 6, 'shop', 's', 1024, { offset: 0 }]);
  const full = await session.ask(SUBSCRIBE, 7, 'shop', 's', 1024, { offset: 0 });
  assert.deepEqual([full.status, full.code, full.fields], [429, 'READERS_LIMITED', { 'retry-after': '1' }]);
  assert.equal((await ask(ROOT, 'GET', '/shop/s?offset=-1&live=sse')).status, 429, 'with all rights, too');
  session.send([UNSUBSCRIBE, 6]);
  await session.about(6);
  assert.equal((await session.ask(SUBSCRIBE, 8, 'shop', 's', 1024, { offset: 0 })).kind, 67);
  session.socket.destroy();
  const other = await SessionClient.connect(server.port, {
    protocol: `millrace.session.v1, millrace.bearer.${textOf('other')}`,
  });
  let id = 0;
  await until('its readers have gone with it', async () => {
    return (await other.ask(SUBSCRIBE, ++id, 'shop', 's', 1024, { offset: 0 })).kind === 67;
  });
  other.socket.destroy();
});

test('frames with names that cannot be count, too', async () => {
  putTokens('limits = { requests_per_second = 2 }');
  assert.equal((await server.hangUp())['tokens'], 'changed');
  const session = await SessionClient.connect(server.port, {
    protocol: `millrace.session.v1, millrace.bearer.${textOf('till')}`,
  });
  // The handshake was a request, which time has paid for or not. All come at one moment.
  const names = ['', '..', '__ds', 'shop'];
  session.send(...names.map((bucket, id) => [HEAD, id, bucket, '']));
  const codes = await Promise.all(names.map(async (_, id) => (await session.about(id)).code));
  assert.equal(codes[0], 'INVALID_NAME');
  assert.deepEqual(codes.slice(2), ['RATE_LIMITED', 'RATE_LIMITED']);
  session.socket.destroy();
  putTokens('');
  assert.equal((await server.hangUp())['tokens'], 'changed');
});

async function make(token: string, id: string, streams: readonly string[], wake: string): Promise<RawResponse> {
  const path = `/v1/stream/__ds/subscriptions/${id}`;
  return await ask(token, 'PUT', path, JSON.stringify({ type: 'pull-wake', streams, wake_stream: wake }));
}

async function childOf(parent: string, streams: string): Promise<string> {
  const scopes = [{ bucket: 'shop', streams, operations: ['subscribe', 'read', 'append'] }];
  const made = await ask(parent, 'POST', '/__svc/tokens', JSON.stringify({ scopes, expires_in: 600 }));
  assert.equal(made.status, 201, made.body.toString());
  return (JSON.parse(made.body.toString()) as { readonly token: string }).token;
}

test('a token has a share of subscriptions, with all that was made from it', async () => {
  const WAKE = 'shop/jobs-wake';
  const subscriber = textOf('subscriber');
  const child = await childOf(subscriber, 'jobs-*');
  assert.equal((await make(ROOT, 'of-others', ['shop/s', 'shop/jobs-1'], WAKE)).status, 201);
  assert.equal((await make(subscriber, 'first', ['shop/jobs-1'], WAKE)).status, 201);
  // Several at one moment: none takes the place of another.
  const ids = ['a', 'b', 'c', 'd'];
  const answers = await Promise.all(ids.map(async (id) => await make(child, id, ['shop/jobs-2'], WAKE)));
  const statuses = answers.map(({ status }) => status);
  assert.deepEqual(
    statuses.toSorted((a, b) => a - b),
    [201, 429, 429, 429],
  );
  for (const token of [subscriber, child]) {
    const refused = await make(token, 'second', ['shop/jobs-3'], WAKE);
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '1']);
    assert.equal(refused.headers.get('millrace-error'), 'SUBSCRIPTIONS_LIMITED');
    assert.match(
      refused.body.toString(),
      /the token \\"subscriber\\" has subscriptions = 2; remove one, or have that raised/,
    );
  }
  assert.equal((await make(subscriber, 'first', ['shop/jobs-1'], WAKE)).status, 200, 'it is there');
  assert.equal((await make(ROOT, 'more', ['shop/jobs-4'], WAKE)).status, 201, 'others are not held to it');
  for (const id of ['first', 'more']) {
    assert.equal((await ask(subscriber, 'DELETE', `/v1/stream/__ds/subscriptions/${id}`)).status, 204);
  }
  assert.equal((await make(subscriber, 'second', ['shop/jobs-3'], WAKE)).status, 201);
});

test('tenants whose tokens come from the one with all rights share a bucket, and no limit', async () => {
  put(limitsFile, '[token]\nsubscriptions = 2\n');
  assert.equal((await server.hangUp())['limits'], 'changed');
  const users = [await childOf(ROOT, 'user-1-*'), await childOf(ROOT, 'user-2-*')];
  // Splitting what one has multiplies nothing.
  const splits = [await childOf(users[0] ?? '', 'user-1-a*'), await childOf(users[0] ?? '', 'user-1-b*')];
  const attempts = [
    [users[0], 1, 'x', 201],
    [splits[0], 1, 'a', 201],
    [splits[1], 1, 'b', 429],
    [users[0], 1, 'y', 429],
    [users[1], 2, 'x', 201],
    [users[1], 2, 'y', 201],
    [users[1], 2, 'z', 429],
  ] as const;
  for (const [token = '', user, name, status] of attempts) {
    const stream = `shop/user-${user}-${name}`;
    const { body, status: found } = await make(token, `of-${user}-${name}`, [stream], stream.concat('-wake'));
    assert.equal(found, status, `${stream}: ${body.toString()}`);
  }
});

test('a bucket without a quota of its own has that of the file', async () => {
  put(limitsFile, '[quota]\nmax_streams = 2\nmax_retained_bytes = 1000\n');
  assert.equal((await server.hangUp())['limits'], 'changed');
  const create = async (name: string, body = ''): Promise<number> =>
    (await ask(ROOT, 'PUT', `/small/${name}`, body)).status;
  assert.deepEqual([await create('a', 'x'.repeat(1001)), await create('a', 'x'.repeat(900))], [429, 201]);
  const refused = await ask(ROOT, 'POST', '/small/a', 'x'.repeat(101));
  assert.deepEqual([refused.status, refused.headers.get('millrace-error')], [429, 'QUOTA_EXCEEDED']);
  assert.match(refused.body.toString(), /max_retained_bytes is 1000, it has 900/);
  assert.deepEqual([await create('b'), await create('c')], [201, 429]);
  const quota = JSON.stringify({ max_streams: 3 });
  const path = '/__svc/quota/small';
  const shown = async (): Promise<unknown> =>
    JSON.parse((await requestOnce(server.adminPort, 'GET', path)).body.toString());
  const [own, used] = [
    { max_streams: null, max_retained_bytes: null },
    { used_streams: 2, used_retained_bytes: 900 },
  ];
  assert.deepEqual(await shown(), { ...own, default_max_streams: 2, default_max_retained_bytes: 1000, ...used });
  const set = await requestOnce(server.adminPort, 'PUT', path, { 'Content-Type': 'application/json' }, quota);
  assert.equal(set.status, 204);
  assert.deepEqual(await shown(), { ...own, max_streams: 3, ...used }, 'the default holds no more');
  assert.deepEqual([await create('c', 'x'.repeat(2000)), await create('d')], [201, 429], 'its own, in place of that');
  put(limitsFile, '');
  assert.equal((await server.hangUp())['limits'], 'changed');
});

test('a file that is wrong changes nothing, and other limits of a token end none of its readers', async () => {
  for (const [text, why] of [
    ['[bucket]\nrequests = 1', /bucket\.requests: unknown key; there are requests_per_second, /],
    [
      '[tokens]',
      /tokens: unknown key; the file has \[token\], \[bucket\], \[quota\] and tables such as \[buckets\.shop\]/,
    ],
    ['[buckets.shop]\nlive_readers = 0', /buckets\.shop\.live_readers: expected a whole number from 1 to 10000000/],
    ['[quota]\nmax_streams = -1', /quota\.max_streams: expected a whole number/],
    ['[quota]\nstreams = 1', /quota\.streams: unknown key; there are max_streams and max_retained_bytes/],
    ['[bucket]\nsubscriptions = 3', /bucket\.subscriptions: unknown key; tokens have such a limit/],
    ['[token]\nsubscriptions = 0', /token\.subscriptions: expected a whole number from 1 to 10000$/],
    ['buckets = 3', /buckets: expected a table for each bucket/],
    ['[bucket', /not valid TOML/],
  ] as const) {
    put(limitsFile, text);
    const said = await server.hangUp();
    assert.match(String(said['reason']), why);
    assert(String(said['reason']).startsWith(`${limitsFile}:`), String(said['reason']));
  }
  put(limitsFile, '');
  assert.equal((await server.hangUp())['limits'], 'unchanged');
  putTokens('limits = { requests_per_second = 1000 }');
  assert.equal((await server.hangUp())['tokens'], 'changed');
  const protocol = `millrace.session.v1, millrace.bearer.${textOf('till')}`;
  const session = await SessionClient.connect(server.port, { protocol });
  assert.equal((await session.ask(HEAD, 1, 'shop', 's')).kind, DONE, 'its debt of bytes is forgotten');
  putTokens('limits = { requests_per_second = 2000 }');
  assert.equal((await server.hangUp())['tokens'], 'changed');
  assert.equal((await session.ask(HEAD, 2, 'shop', 's')).kind, DONE);
  session.socket.destroy();
  putTokens('limits = { requests_per_second = 0 }');
  assert.match(String((await server.hangUp())['reason']), /tokens\[0\]\.limits\.requests_per_second: expected a whole/);
});
