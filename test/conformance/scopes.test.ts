// Tokens with scopes against a real process: what a listing shows, forks, and that live readers and sessions end with
// their tokens, which come from a file that SIGHUP reads again.
import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { ListedToken } from '../../src/base/scopes.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';
import { bearer, listed, scopeOf, textOf } from '../support/scoped-tokens.ts';
import { TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';
import {
  APPEND,
  ATTRIBUTES,
  CREATE,
  DELETE,
  DONE,
  EVENT,
  HEAD,
  READ,
  REFUSED,
  SUBSCRIBE,
  SessionClient,
  TEXT,
} from '../session/client.ts';

const folder = temporaryFolder('scopes');
const file = join(folder, 'tokens.toml');
const ROOT = 'root-0123456789abcdef0123456789abcdef';
const server = new TestServer({
  ...{ process: true, cores: 2, groups: 8, longPollTimeout: '60s' },
  http: `client_token = "${ROOT}"\ntokens_file = "${file}"`,
});

const ALWAYS: readonly ListedToken[] = [
  listed('lister', [
    ...[scopeOf('shop', 'a-*', 'list'), scopeOf('shop', 'm', 'list'), scopeOf('shop', 'z-1*', 'list', 'read')],
    ...[scopeOf('shop', 'b-*', 'read'), scopeOf('shop', 'a-1*', 'list'), scopeOf('gone', 'x*', 'list')],
  ]),
  listed('reader', [scopeOf('shop', 'live', 'read')]),
  listed('subscriber', [
    scopeOf('shop', 'mine-*', 'subscribe', 'read', 'append', 'create'),
    ...[scopeOf('jobs', '*', 'subscribe', 'read'), scopeOf('shop', 'live', 'read')],
  ]),
  listed('elsewhere', [scopeOf('other', '*', 'list')]),
  listed('worker', [scopeOf('shop', 'mine-*', 'create', 'append', 'read'), scopeOf('shop', 'live', 'append')]),
];

function write(tokens: readonly ListedToken[], revoked: readonly string[] = []): void {
  const entries = tokens.map(({ id, sha256, expiresAtMs, scopes }) => {
    const expiry = expiresAtMs === undefined ? '' : `expires_at = ${new Date(expiresAtMs).toISOString()}\n`;
    const tables = scopes.map(
      ({ bucket, streams, operations }) =>
        `[[tokens.scopes]]\nbucket = "${bucket}"\nstreams = "${streams}"\noperations = ${JSON.stringify(operations)}\n`,
    );
    return `[[tokens]]\nid = "${id}"\nsha256 = "${sha256}"\n${expiry}${tables.join('')}`;
  });
  writeFileSync(`${file}.new`, `revoked = ${JSON.stringify(revoked)}\n${entries.join('')}`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

async function ask(token: string, method: string, path: string, body?: string): Promise<RawResponse> {
  const authorization = token === ROOT ? { Authorization: `Bearer ${ROOT}` } : bearer(token);
  return await requestOnce(server.port, method, path, { ...authorization, 'Content-Type': 'text/plain' }, body);
}

before(async () => {
  write(ALWAYS);
  await server.start();
  for (const stream of [...NAMES, 'live']) {
    assert.equal((await ask(ROOT, 'PUT', `/shop/${encodeURIComponent(stream)}`)).status, 201);
  }
});
after(async () => {
  await server.dispose();
  removeFolder(folder);
});

const NAMES = [
  ...Array.from({ length: 12 }, (_, i) => `a-${i}`),
  ...['a', 'aa', 'b-1', 'b-2', 'm', 'm0', 'l', 'n', 'z-0', 'z-1', 'z-10', 'z-11', 'z-2', 'z-1\u{1f600}', 'z-1\uff01'],
];
const shown = NAMES.filter((name) => name.startsWith('a-') || name === 'm' || name.startsWith('z-1'));

interface Page {
  readonly streams: readonly { readonly stream_id: string }[];
  readonly next_cursor: string | null;
  readonly has_more: boolean;
}

async function pages(token: string, query: string): Promise<string[][]> {
  const found: string[][] = [];
  for (let after = ''; ;) {
    const answer = await ask(token, 'GET', `/shop/streams?${query}&after=${encodeURIComponent(after)}`);
    assert.equal(answer.status, 200, answer.body.toString());
    const page = JSON.parse(answer.body.toString()) as Page;
    found.push(page.streams.map(({ stream_id }) => stream_id));
    if (!page.has_more) return found;
    assert(found.length < 100 && page.next_cursor !== null && page.streams.length > 0, JSON.stringify(page));
    after = page.next_cursor;
  }
}

const byBytes = (names: readonly string[]): string[] =>
  [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));

test('a listing shows what the scopes cover, in pages of any size', async () => {
  for (const limit of [1, 2, 3, 5, 12, 13, 14, 17, 18, 19, 1000]) {
    const found = await pages('lister', `limit=${limit}`);
    assert.deepEqual(found.flat(), byBytes(shown), `limit ${limit}`);
    for (const page of found.slice(0, -1)) assert.equal(page.length, limit);
    assert.equal(found.length, Math.max(1, Math.ceil(shown.length / limit)), `no empty page, limit ${limit}`);
  }
  for (const prefix of ['a', 'a-', 'a-1', 'a-11', 'm', 'm0', 'z', 'z-1', 'z-11', 'b', 'q', 'live']) {
    const expected = byBytes(shown.filter((name) => name.startsWith(prefix)));
    for (const limit of [1, 4, 1000]) {
      assert.deepEqual((await pages('lister', `prefix=${prefix}&limit=${limit}`)).flat(), expected, prefix);
    }
  }
  // A cursor that lies outside of the scopes.
  for (const after of ['a-z', 'b', 'm', 'z-1', '\u{10ffff}']) {
    const answer = await ask('lister', 'GET', `/shop/streams?after=${encodeURIComponent(after)}`);
    const page = JSON.parse(answer.body.toString()) as Page;
    const behind = shown.filter((name) => Buffer.compare(Buffer.from(name), Buffer.from(after)) > 0);
    assert.deepEqual(
      page.streams.map(({ stream_id }) => stream_id),
      byBytes(behind),
      after,
    );
  }
  // As one that is not there: empty.
  for (const bucket of ['gone', 'other']) {
    const [mine, all] = [
      await ask('lister', 'GET', `/${bucket}/streams`),
      await ask(ROOT, 'GET', `/${bucket}/streams`),
    ];
    assert.deepEqual([mine.status, mine.body.toString()], [all.status, all.body.toString()]);
  }
  // `shop` is there and `reader` may not list it; `elsewhere` sees nothing of it.
  assert.deepEqual(JSON.parse((await ask('elsewhere', 'GET', '/shop/streams')).body.toString()), {
    ...{ bucket_id: 'shop', prefix: '', stream_count: 0, streams: [], next_cursor: null, has_more: false },
  });
  assert.equal((await ask('lister', 'GET', '/shop')).status, 403);
  assert.equal((await ask('reader', 'GET', '/shop/streams')).status, 403);
});

test('what is out of scope looks like what is not there', async () => {
  const hidden = await ask('reader', 'GET', '/shop/a-1');
  const missing = await ask('worker', 'GET', '/shop/mine-none');
  assert.deepEqual([hidden.status, missing.status], [404, 404]);
  assert.equal(hidden.body.toString(), missing.body.toString());
  const names = (answer: RawResponse): string[] => [...answer.headers.keys()].sort();
  assert.deepEqual(names(hidden), names(missing));
});

test('create, append, fork and close need their rights', async () => {
  const put = async (token: string, path: string, source?: string): Promise<string> => {
    const headers = { ...bearer(token), ...(source && { 'Stream-Forked-From': source }) };
    const answer = await requestOnce(server.port, 'PUT', path, { ...headers, 'Content-Type': 'text/plain' });
    return `${answer.status} ${answer.headers.get('millrace-error') ?? ''}`.trim();
  };
  assert.equal(await put('worker', '/shop/mine-1'), '201');
  assert.equal(await put('worker', '/shop/mine-2', '/shop/mine-1'), '201');
  assert.equal(await put('worker', '/shop/mine-3', '/shop/live'), '403 INSUFFICIENT_SCOPE');
  assert.equal(await put('worker', '/shop/mine-3', '/shop/a-1'), '404 FORK_SOURCE_NOT_FOUND');
  assert.equal(await put('worker', '/shop/mine-3', '/v1/stream/shop/a-1'), '404 FORK_SOURCE_NOT_FOUND');
  assert.equal(await put('worker', '/shop/mine-3', '/shop/mine-none'), '404 FORK_SOURCE_NOT_FOUND', 'the same');
  assert.equal(await put('worker', '/shop/live', '/shop/mine-1'), '403 INSUFFICIENT_SCOPE');
  assert.equal((await ask('worker', 'POST', '/shop/mine-2', 'x')).status, 204);
  assert.equal((await ask('worker', 'DELETE', '/shop/mine-2')).status, 403);
  assert.equal((await ask('worker', 'GET', '/shop/mine-3')).status, 404, 'nothing was made');
});

/** Resolves with all that comes until the node ends the answer. */
async function follow(
  token: string,
  query: string,
): Promise<{ readonly status: number; readonly rest: Promise<string> }> {
  const answer = await fetch(`${server.url}/shop/live?${query}`, { headers: bearer(token) });
  return { status: answer.status, rest: within(answer.text(), PATIENCE_MS, 'the end of the answer') };
}

const SSE = 'offset=-1&live=sse';
const POLL = 'offset=now&live=long-poll&timeout=60s';

test('live readers and sessions end when their token is revoked, and others go on', async () => {
  write([...ALWAYS, listed('guest', [scopeOf('shop', 'live', 'read')])]);
  assert.equal((await server.hangUp())['tokens'], 'changed');
  const guest = await follow('guest', SSE);
  const poll = follow('guest', POLL);
  const reader = await follow('reader', SSE);
  const session = await SessionClient.connect(server.port, {
    headers: [`Authorization: ${bearer('guest').Authorization}`],
  });
  session.send([SUBSCRIBE, 1, 'shop', 'live', 1000, { offset: 0 }]);
  assert.equal((await session.about(1)).kind, EVENT);
  assert.deepEqual([guest.status, reader.status], [200, 200]);
  // It waits in the node when its reading has been counted.
  await within(waitersAre(4), PATIENCE_MS, 'four live readers');

  write([...ALWAYS, listed('guest', [scopeOf('shop', 'live', 'read')])], ['guest']);
  assert.equal((await server.hangUp())['tokens'], 'changed');
  assert.match(await guest.rest, /event: error\ndata:.*valid bearer token/);
  const polled = await poll;
  assert.equal(polled.status, 401);
  assert.equal(await session.ended(), 1001);
  assert.equal((await ask('guest', 'GET', '/shop/live')).status, 401);
  // The reader with the other token is still there.
  assert.equal((await ask(ROOT, 'POST', '/shop/live', 'end')).status, 204);
  write(ALWAYS.filter(({ id }) => id !== 'reader'));
  await server.hangUp();
  assert.match(await reader.rest, /end/);
  write(ALWAYS);
  await server.hangUp();
});

async function waitersAre(count: number): Promise<void> {
  for (;;) {
    const answer = await ask(ROOT, 'GET', '/__svc/metrics');
    const { live_read_waiters } = JSON.parse(answer.body.toString()) as { readonly live_read_waiters: number };
    if (live_read_waiters === count) return;
  }
}

test('live readers and sessions end when their token expires', async () => {
  // On a slow machine the token is over before it is used; then one that lasts longer is tried.
  for (const lifeMs of [1500, 6000, 24_000]) {
    write([...ALWAYS, listed('brief', [scopeOf('shop', 'live', 'read')], Date.now() + lifeMs)]);
    await server.hangUp();
    const sse = await follow('brief', SSE);
    const polling = follow('brief', POLL);
    const headers = [`Authorization: ${bearer('brief').Authorization}`];
    const session = await SessionClient.connect(server.port, { headers });
    if (sse.status !== 200 || session.status !== 101) {
      await polling;
      continue;
    }
    assert.match(await sse.rest, /event: error/);
    assert.equal((await polling).status, 401);
    assert.equal(await session.ended(), 1001);
    const after = await ask('brief', 'GET', '/shop/live');
    assert.match(after.headers.get('www-authenticate') ?? '', /invalid_token.*the token has expired/);
    write(ALWAYS);
    await server.hangUp();
    return;
  }
  assert.fail('no token lasted until it was used');
});

test('a session has the rights of its token, request by request', async () => {
  const session = await SessionClient.connect(server.port, {
    protocol: `millrace.session.v1, millrace.bearer.${encodeURIComponent(textOf('worker'))}`,
  });
  const said = async (...frame: readonly [number, number, ...(readonly unknown[])]): Promise<string> => {
    const { kind, status, code } = await session.ask(...frame);
    return kind === REFUSED ? `${status} ${code}` : kind === DONE ? 'done' : `kind ${kind}`;
  };
  assert.equal(await said(CREATE, 1, 'shop', 'mine-9', null, TEXT), 'done');
  assert.equal(await said(APPEND, 2, 'shop', 'mine-9', 'x', TEXT), 'done');
  assert.equal(await said(APPEND, 3, 'shop', 'mine-9', ['x', 'y'], TEXT), 'done');
  assert.equal(await said(READ, 4, 'shop', 'mine-9', { offset: 0 }), 'done');
  assert.equal(await said(HEAD, 5, 'shop', 'mine-9'), 'done');
  assert.equal(await said(ATTRIBUTES, 6, 'shop', 'mine-9', null), 'done');
  assert.equal(await said(ATTRIBUTES, 7, 'shop', 'mine-9', '{}'), '403 INSUFFICIENT_SCOPE');
  assert.equal(await said(DELETE, 8, 'shop', 'mine-9', {}), '403 INSUFFICIENT_SCOPE');
  assert.equal(await said(APPEND, 9, 'shop', 'live', 'x', TEXT), 'done');
  for (const [id, frame] of [
    [HEAD, 'shop', 'live'],
    [READ, 'shop', 'live', { offset: 0 }],
    [SUBSCRIBE, 'shop', 'live', 100, { offset: 0 }],
    [SUBSCRIBE, 'shop', 'live', 100, { offset: 'now', wait: 'create' }],
    [CREATE, 'shop', 'live', null, TEXT],
  ].entries()) {
    const [kind, ...rest] = frame as [number, ...unknown[]];
    assert.equal(await said(kind, 20 + id, ...rest), '403 INSUFFICIENT_SCOPE', JSON.stringify(frame));
  }
  for (const [id, frame] of [
    [HEAD, 'shop', 'a-1'],
    [READ, 'shop', 'a-1', { offset: 0 }],
    [SUBSCRIBE, 'shop', 'a-1', 100, { offset: 0, wait: 'create' }],
    [CREATE, 'shop', 'new', null, TEXT],
    [APPEND, 'shop', 'a-1', 'x', TEXT],
    [APPEND, 'shop', 'a-1', ['x', 'y'], TEXT],
    [APPEND, 'shop', 'a-1', null, { ...TEXT, 'stream-closed': true }],
    [DELETE, 'shop', 'a-1', {}],
    [ATTRIBUTES, 'shop', 'a-1', null],
    [HEAD, 'other', 'mine-9'],
  ].entries()) {
    const [kind, ...rest] = frame as [number, ...unknown[]];
    assert.equal(await said(kind, 40 + id, ...rest), '404 STREAM_NOT_FOUND', JSON.stringify(frame));
  }
  session.destroy();
});

test('a subscription follows nothing that its maker may not', async () => {
  const ds = '/v1/stream/__ds/subscriptions';
  const asked = async (token: string, method: string, path: string, body?: unknown): Promise<string> => {
    const answer = await ask(token, method, `${ds}/${path}`, body === undefined ? undefined : JSON.stringify(body));
    if (answer.status === 403)
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer error="insufficient_scope"');
    const code = /"code":"(\w+)"/.exec(answer.body.toString())?.[1];
    return code === undefined ? String(answer.status) : `${answer.status} ${code}`;
  };
  const make = (more: object): object => ({ type: 'pull-wake', wake_stream: 'shop/mine-wake', ...more });
  const refused = [
    ...[
      { pattern: 'shop/*' },
      { pattern: '**' },
      { pattern: 'jobs/**' },
      { pattern: '*/a-1' },
      { pattern: 'shop/live' },
    ],
    ...[{ streams: ['shop/a-1'] }, { streams: ['jobs/1', 'shop/a-1'] }, { pattern: 'jobs/*', streams: ['shop/a-1'] }],
    ...[
      { pattern: 'jobs/*', wake_stream: 'shop/live' },
      { pattern: 'jobs/*', wake_stream: 'shop/a-1' },
    ],
    { pattern: 'jobs/*', wake_stream: 'jobs/wake' },
  ];
  for (const config of refused) {
    assert.equal(
      await asked('subscriber', 'PUT', 'mine', make(config)),
      '403 INSUFFICIENT_SCOPE',
      JSON.stringify(config),
    );
  }
  assert.equal(await asked('reader', 'PUT', 'mine', make({ streams: ['shop/live'] })), '403 INSUFFICIENT_SCOPE');
  assert.equal(await asked(ROOT, 'GET', 'mine'), '404 SUBSCRIPTION_NOT_FOUND', 'nothing was made');

  assert.equal(await asked('subscriber', 'PUT', 'mine', make({ pattern: 'jobs/*' })), '201');
  assert.equal(await asked('subscriber', 'GET', 'mine'), '200');
  assert.equal(await asked('subscriber', 'POST', 'mine/streams', { streams: ['shop/mine-1'] }), '204');
  assert.equal(await asked('subscriber', 'POST', 'mine/streams', { streams: ['shop/live'] }), '403 INSUFFICIENT_SCOPE');
  assert.equal(await asked('subscriber', 'POST', 'mine/claim', { worker: 'w' }), '409 NO_PENDING_WORK');
  for (const other of ['reader', 'elsewhere']) {
    assert.equal(await asked(other, 'GET', 'mine'), '404 SUBSCRIPTION_NOT_FOUND');
    assert.equal(await asked(other, 'POST', 'mine/claim', { worker: 'w' }), '404 SUBSCRIPTION_NOT_FOUND');
    assert.equal(await asked(other, 'DELETE', 'mine/streams/shop/mine-1'), '404 SUBSCRIPTION_NOT_FOUND');
    assert.equal(await asked(other, 'DELETE', 'mine'), '204', 'as for one that is not there');
  }
  assert.equal(await asked('subscriber', 'GET', 'mine'), '200', 'it still is');

  // With a stream of others it is out of sight.
  assert.equal(await asked(ROOT, 'POST', 'mine/streams', { streams: ['shop/a-1'] }), '204');
  assert.equal(await asked('subscriber', 'GET', 'mine'), '404 SUBSCRIPTION_NOT_FOUND');
  assert.equal(
    await asked('subscriber', 'POST', 'mine/streams', { streams: ['jobs/1'] }),
    '404 SUBSCRIPTION_NOT_FOUND',
  );
  assert.equal(
    await asked('subscriber', 'PUT', 'mine', make({ pattern: 'jobs/*' })),
    '409 SUBSCRIPTION_ALREADY_EXISTS',
  );
  assert.equal(await asked('subscriber', 'DELETE', 'mine/streams/shop/mine-1'), '404 SUBSCRIPTION_NOT_FOUND');
  assert.equal(await asked(ROOT, 'DELETE', 'mine/streams/shop/a-1'), '204');
  assert.equal(await asked('subscriber', 'DELETE', 'mine'), '204');
  assert.equal(await asked(ROOT, 'GET', 'mine'), '404 SUBSCRIPTION_NOT_FOUND');

  // One that follows nothing any more belongs to no token, nor does one whose wakes go to a stream of others.
  assert.equal(await asked(ROOT, 'PUT', 'emptied', make({ streams: ['shop/a-1'] })), '201');
  assert.equal(await asked(ROOT, 'DELETE', 'emptied/streams/shop/a-1'), '204');
  const wakesOthers = make({ streams: ['shop/mine-1'], wake_stream: 'shop/a-1' });
  assert.equal(await asked(ROOT, 'PUT', 'wakes-others', wakesOthers), '201');
  for (const id of ['emptied', 'wakes-others']) {
    for (const token of ['subscriber', 'reader']) {
      assert.equal(await asked(token, 'GET', id), '404 SUBSCRIPTION_NOT_FOUND');
      assert.equal(await asked(token, 'DELETE', id), '204', 'as for one that is not there');
    }
    assert.equal(
      await asked('subscriber', 'POST', `${id}/streams`, { streams: ['jobs/1'] }),
      '404 SUBSCRIPTION_NOT_FOUND',
    );
    assert.equal(await asked(ROOT, 'DELETE', id), '204');
  }
});

test('a file that cannot be used leaves the tokens before', async () => {
  writeFileSync(file, '[[tokens]]\nid = "x"\n');
  assert.match(String((await server.hangUp())['reason']), /tokens\.toml: tokens\[0\]/);
  assert.equal((await ask('reader', 'GET', '/shop/live')).status, 200);
  write(ALWAYS);
  assert.equal((await server.hangUp())['tokens'], 'unchanged');
});
