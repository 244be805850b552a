// The client where no WebSocket can be opened, and what sessions do not have: everything goes over HTTP, with the same
// promises.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import type { WebSocketConstructor } from '../../src/client/channel.ts';
import { type MillraceClient, type MillraceStream, StreamError, connect } from '../../src/client/client.ts';
import { Relay } from '../support/relay.ts';
import { TestServer, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';
import { codeOf, textOf } from './answers.ts';
import { NoSocket } from './no-socket.ts';

const TEXT = { contentType: 'text/plain' };
const JSON_TYPE = { contentType: 'application/json' };
const TOKEN = 'Tö/ken-1';
const server = new TestServer({ cores: 1, groups: 4, http: `client_token = "${encodeURIComponent(TOKEN)}"` });
const token = encodeURIComponent(TOKEN);

const clients = new Map<string, MillraceClient>();
let streams = 0;

before(async () => {
  await server.start();
  clients.set('a session', connect(server.url, { token }));
  clients.set('HTTP', connect(server.url, { token, WebSocket: NoSocket }));
});
after(async () => {
  for (const client of clients.values()) client.close();
  await server.dispose();
});

async function* texts(stream: MillraceStream, offset: number | 'now' = 0, live = false): AsyncGenerator<string> {
  for await (const { data } of stream.follow({ offset, live })) yield textOf(data);
}

async function all<T>(items: AsyncIterable<T>, most = Number.POSITIVE_INFINITY): Promise<T[]> {
  const got: T[] = [];
  for await (const item of items) if (got.push(item) === most) break;
  return got;
}

/** Live readers at the node, of all tests. */
async function waiters(): Promise<number> {
  const { body } = await server.client.request('GET', '/__svc/metrics', { authorization: `Bearer ${token}` });
  return JSON.parse(body.toString()).live_read_waiters;
}

/** Each case by both ways. */
function cases(what: string, body: (client: MillraceClient, name: string) => Promise<void>): void {
  for (const way of ['a session', 'HTTP']) {
    test(`by ${way}: ${what}`, async () => {
      const client = clients.get(way);
      assert(client !== undefined);
      await body(client, `s${streams++} é/ü`);
    });
  }
}

cases('bytes are appended, described, followed and removed', async (client, name) => {
  const stream = client.stream('b', name, TEXT);
  assert.equal(await codeOf(stream.head()), '404 STREAM_NOT_FOUND');
  await assert.rejects(stream.head(), /stream not found|^StreamError: HEAD \/b\/s.*: 404 STREAM_NOT_FOUND$/);
  const awaited = stream.follow({ wait: 'create' }).next();
  assert.deepEqual(await stream.create({ ...TEXT, data: 'a' }), { isNew: true, offset: 1 });
  assert.deepEqual(await stream.create(TEXT), { isNew: false, offset: 1 });
  assert.equal(textOf((await awaited).value?.data ?? new Uint8Array(0)), 'a');
  const live = texts(stream, 'now', true).next();
  assert.deepEqual(await Promise.all([stream.append('b'), stream.append('cd'), stream.append('e')]), [2, 4, 5]);
  assert((await live).done === false);
  assert.deepEqual((await all(texts(stream))).join(''), 'abcde');
  const large = Buffer.alloc(600_000, 'x');
  assert.deepEqual(
    await Promise.all([stream.append('f'), stream.append(large), stream.append('g')]),
    [6, 600_006, 600_007],
  );
  assert.equal(await stream.close('!'), 600_008);
  assert.equal(await stream.close(), 600_008);
  assert.equal((await all(texts(stream, 600_006, true))).join(''), 'g!');
  assert.equal(await codeOf(stream.append('h')), '409 STREAM_CLOSED');
  assert.equal((await stream.head()).isClosed, true);
  await stream.delete();
  assert.equal(await codeOf(stream.delete()), '404 STREAM_NOT_FOUND');
});

cases('records are values with ordinals', async (client, name) => {
  const stream = client.stream('b', name);
  await stream.create(JSON_TYPE);
  const records = stream.records<unknown>();
  const live = records.follow({ record: 'now' });
  const values = [{ a: 1 }, [1, 2], 'text', null, 5];
  await Promise.all(values.map((value) => records.append(value)));
  const incarnation = (await stream.follow({ live: false }).next()).value?.incarnation;
  const seen = values.map((value, record) => ({ record, value, incarnation }));
  assert.deepEqual(await all(records.follow({ live: false })), seen);
  assert.deepEqual(await all(records.follow({ tail: 2, live: false })), seen.slice(3));
  assert.deepEqual(await all(records.follow({ record: 1, live: true }), 2), seen.slice(1, 3));
  const next = live.next();
  for (;;) {
    await records.append('later');
    const got = await Promise.race([next, Promise.resolve(undefined)]);
    if (got !== undefined) break;
  }
  assert.deepEqual((await next).value?.value, 'later');
  assert.equal((await stream.head()).records?.first, 0);
  // One that is no JSON concerns itself alone.
  const mixed = ['1', '{', '2', ']', '3'].map((json) => codeOf(stream.append(json)));
  assert.deepEqual(await Promise.all(mixed), [
    'no error',
    '400 INVALID_JSON',
    'no error',
    '400 INVALID_JSON',
    'no error',
  ]);
  assert.deepEqual(
    (await all(records.follow({ tail: 3, live: false }))).map(({ value }) => value),
    [1, 2, 3],
  );
  assert.equal(await codeOf(records.append(undefined)), '0 INVALID_ARGUMENT');
  await records.append({ toJSON: () => [1, 2] });
  assert.deepEqual((await all(records.follow({ tail: 1, live: false })))[0]?.value, [1, 2]);
});

cases('a follower may be left while it waits, as other libraries do', async (client, name) => {
  const stream = client.stream('b', name);
  await stream.create({ ...JSON_TYPE, data: '[1]' });
  const left: readonly (() => AsyncGenerator)[] = [() => stream.follow(), () => stream.records().follow()];
  for (const follow of left) {
    const follower = follow();
    await follower.next();
    const waiting = follower.next();
    const ended = Promise.all([follower.return(undefined), waiting]);
    for (const { done } of await within(ended, PATIENCE_MS, 'the end')) assert.equal(done, true);
    assert.equal((await follower.next()).done, true);
    const reader = Readable.from(follow());
    const closed = once(reader, 'close');
    await once(reader.resume(), 'data');
    reader.destroy();
    await within(closed, PATIENCE_MS, 'the end');
    const failing = follow();
    await failing.next();
    const pending = failing.next();
    await assert.rejects(within(failing.throw(new Error('no more')), PATIENCE_MS, 'the end'), /no more/);
    assert.equal((await pending).done, true);
  }
});

cases('attributes, forks, snapshots and retention', async (client, name) => {
  const stream = client.stream('b', name);
  await stream.create(JSON_TYPE);
  assert.deepEqual(await stream.attributes(), {});
  await stream.setAttributes({ title: 'Größe', metadata: { n: 1 } });
  assert.deepEqual(await stream.attributes(), { title: 'Größe', metadata: { n: 1 } });
  const records = stream.records<number>();
  for (const n of [0, 1, 2]) await records.append(n);
  assert.deepEqual(await stream.bootstrap(), { snapshot: undefined, offset: 0 });
  await stream.publishSnapshot({ record: 2 }, '{"sum":1}', JSON_TYPE);
  const { snapshot, offset } = await stream.bootstrap();
  assert.equal(snapshot === undefined ? '' : textOf(snapshot.data), '{"sum":1}');
  assert.deepEqual([snapshot?.contentType, snapshot?.offset], ['application/json', offset]);
  const other = stream.publishSnapshot({ offset }, '{}', { ...JSON_TYPE, replaces: '0'.repeat(64) });
  assert.equal(await codeOf(other), '409 SNAPSHOT_MISMATCH');
  await stream.retain({ record: 2 });
  const gone = all(stream.follow({ live: false }));
  assert.equal(await gone.catch((error: unknown) => (error instanceof StreamError ? error.offset : -1)), offset);
  assert.deepEqual(await all(texts(stream, offset)), ['[2]']);
  const fork = await stream.fork({ name: `${name}-fork` });
  await fork.append('7');
  assert.deepEqual(
    (await all(fork.records<number>().follow({ record: 2, live: false }))).map(({ value }) => value),
    [2, 7],
  );
  assert.equal((await stream.head()).records?.next, 3);
});

cases('what comes into a stream that was not there is news, also between two questions', async (client, name) => {
  const stream = client.stream('b', name, TEXT);
  const relay = await Relay.open();
  relay.targetPort = server.port;
  const way = client === clients.get('HTTP') ? { WebSocket: NoSocket } : {};
  const far = connect(`http://127.0.0.1:${relay.port}`, { token, ...way });
  const before = await waiters();
  const first = far.stream('b', name).follow({ offset: 'now', wait: 'create' }).next();
  await until('a reader that waits', async () => (await waiters()) > before);
  relay.loses = 'everything';
  relay.cut();
  await stream.create({ ...TEXT, data: 'all of it' });
  relay.loses = 'nothing';
  relay.cut();
  const { value } = await within(first, PATIENCE_MS, 'the bytes');
  assert.equal(textOf(value?.data ?? new Uint8Array(0)), 'all of it');
  far.close();
  relay.close();
});

test('a refused token is told, where a WebSocket says nothing', async () => {
  const stranger = connect(server.url, { token: 'wrong' });
  assert.equal(await codeOf(stranger.stream('b', 's', TEXT).append('x')), '401 UNAUTHORIZED');
  assert.equal(await codeOf(stranger.stream('b', 's').follow().next()), '401 UNAUTHORIZED');
  stranger.close();
});

test('over HTTP too, connections that are cut lose nothing and repeat nothing', async () => {
  const relay = await Relay.open();
  relay.targetPort = server.port;
  const client = connect(`http://127.0.0.1:${relay.port}`, { token, WebSocket: NoSocket });
  const stream = client.stream('b', 'cut', TEXT);
  await stream.create(TEXT);
  const pieces = Array.from({ length: 120 }, (_, i) => `${i};`);
  const whole = pieces.join('');
  let seen = '';
  const follower = (async () => {
    for await (const text of texts(stream, 0, true)) if ((seen += text).length >= whole.length) return;
  })();
  for (const [i, piece] of pieces.entries()) {
    const append = stream.append(piece);
    if (i % 30 === 0) relay.cut();
    if (i % 5 === 0) await append;
  }
  await follower;
  assert.equal(seen, whole);
  client.close();
  relay.close();
});

test('over HTTP, a call that is aborted ends no other one', async (t) => {
  let probes = 0;
  const platform = fetch;
  t.mock.method(globalThis, 'fetch', async (url: string, init: RequestInit) => {
    if (url.endsWith('/__svc/session')) probes++;
    return await platform(url, init);
  });
  const client = connect(server.url, { token, WebSocket: NoSocket });
  t.after(() => client.close());
  const stream = client.stream('b', 'aborted', TEXT);
  await stream.create(TEXT);
  const before = await waiters();
  const stays = texts(stream, 0, true).next();
  const abort = new AbortController();
  const leaves = stream.follow({ signal: abort.signal }).next();
  await until('two readers that wait', async () => (await waiters()) >= before + 2);
  abort.abort(new Error('no more'));
  await assert.rejects(leaves, /no more/);
  await stream.append('x');
  assert.equal((await stays).value, 'x');
  // Each connection begins with one.
  assert.equal(probes, 1);
});

test('a client that is closed leaves no request behind, nor that of an append too large for its session', async (t) => {
  const client = connect(server.url, { token });
  const stream = client.stream('b', 'left', TEXT);
  await stream.create(TEXT);
  const signals: AbortSignal[] = [];
  t.mock.method(globalThis, 'fetch', async (_url: string, { signal }: { readonly signal: AbortSignal }) => {
    signals.push(signal);
    await once(signal, 'abort');
    throw signal.reason;
  });
  const append = stream.append(Buffer.alloc(300_000));
  await until('the request', () => signals.length === 1);
  client.close();
  await assert.rejects(append, { code: 'CLIENT_CLOSED' });
  // Its own time would end it too, a minute later.
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(signals[0]?.aborted, true);
});

test('a follower that began over HTTP goes on in a session once there is one', async (t) => {
  const { WebSocket: platform }: { readonly WebSocket?: WebSocketConstructor; readonly fetch: unknown } = globalThis;
  assert(platform !== undefined);
  let sockets = 0;
  const failsOnce = new Proxy(NoSocket, {
    construct: (_, [url, protocols]: ConstructorParameters<WebSocketConstructor>) =>
      sockets++ === 0 ? new NoSocket(url, protocols) : new platform(url, protocols),
  });
  const client = connect(server.url, { token, WebSocket: failsOnce });
  const stream = client.stream('b', 'from-http-to-session', TEXT);
  await stream.create({ ...TEXT, data: 'a' });
  const follower = texts(stream, 0, true);
  assert.equal((await follower.next()).value, 'a');
  const next = follower.next();
  const now = performance.now.bind(performance);
  // A session is tried again after a minute.
  const clock = t.mock.method(performance, 'now', () => now() + 61_000);
  await clients.get('HTTP')?.stream('b', 'from-http-to-session', TEXT).append('b');
  assert.equal((await next).value, 'b');
  const last = follower.next();
  await until('another socket', () => sockets === 2);
  clock.mock.restore();
  await stream.append('c');
  assert.equal((await last).value, 'c');
  client.close();
});

test('a body that takes longer than an answer may is sent once', async (t) => {
  const MIB = 1024 * 1024;
  let posts = 0;
  const fake = createServer((request, response) => {
    request.resume();
    if (request.method !== 'POST') return response.writeHead(426, { 'millrace-error': 'UPGRADE_REQUIRED' }).end();
    posts++;
    return request.once('end', () => {
      // The bytes are here at once; the clock says that they took 50 s.
      t.mock.timers.tick(50_000);
      response.writeHead(204, { 'stream-next-offset': String(MIB) }).end();
    });
  });
  await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve));
  const client = connect(`http://127.0.0.1:${(fake.address() as AddressInfo).port}`, { WebSocket: NoSocket });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  assert.equal(await client.stream('b', 's', TEXT).append(Buffer.alloc(MIB)), MIB);
  assert.equal(posts, 1);
  client.close();
  fake.close();
  fake.closeAllConnections();
});
