// The client against a real node in this process: appends, followers, and connections that are cut on the way.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ConnectOptions, type MillraceClient, type MillraceStream, connect } from '../../src/client/client.ts';
import { freePort } from '../support/ports.ts';
import { Relay } from '../support/relay.ts';
import { codeOf, textOf } from './answers.ts';
import { NoSocket } from './no-socket.ts';
import { startNode } from './node.ts';

const TEXT = { contentType: 'text/plain' };
const { server, client } = await startNode();
let streams = 0;

const newName = (): string => `s${streams++}`;

/** Bytes of a stream up to its end, or up to `most`. */
async function readAll(from: MillraceClient, name: string, most = Number.POSITIVE_INFINITY): Promise<string> {
  let text = '';
  for await (const { data, offset } of from.stream('b', name).follow()) {
    text += textOf(data);
    assert.equal(offset, text.length, 'no gap');
    if (text.length >= most) break;
  }
  return text;
}

test('a stream is made, appended to, described, followed to its end and removed', async () => {
  const name = newName();
  const stream = client.stream('b', name);
  assert.equal(await codeOf(stream.append('x')), '404 STREAM_NOT_FOUND');
  assert.deepEqual(await stream.create({ ...TEXT, data: 'ab' }), { isNew: true, offset: 2 });
  assert.deepEqual(await stream.create(TEXT), { isNew: false, offset: 2 });
  assert.equal(await codeOf(stream.create({ contentType: 'image/png' })), '409 CREATE_CONFLICT');
  assert.deepEqual(
    await Promise.all([stream.append('c'), stream.append(Buffer.from('de')), stream.append('é')]),
    [3, 5, 7],
  );
  // A writer that does not know the type asks for it.
  assert.equal(await client.stream('b', name).append('!'), 8);
  const { etag, ...description } = await stream.head();
  assert.match(etag, /^".+"$/);
  assert.deepEqual(description, { contentType: 'text/plain', offset: 8, retainedOffset: 0, isClosed: false });
  const tail: string[] = [];
  for await (const { data, isUpToDate } of stream.follow({ offset: 5, live: false }))
    tail.push(`${textOf(data)} ${isUpToDate}`);
  assert.deepEqual(tail, ['é! true']);
  assert.equal(await stream.close('end'), 11);
  assert.equal(await stream.close(), 11);
  assert.equal(await codeOf(stream.append('more')), '409 STREAM_CLOSED');
  assert.equal(await codeOf(stream.close('more')), '409 STREAM_CLOSED');
  const whole: string[] = [];
  for await (const { data } of stream.follow()) whole.push(textOf(data));
  assert.equal(whole.join(''), 'abcdeé!end');
  await stream.delete();
  assert.equal(await codeOf(stream.head()), '404 STREAM_NOT_FOUND');
  assert.equal(await codeOf(stream.append('')), '0 INVALID_ARGUMENT');
});

test('a follower sees what comes, waits for a stream that is to come, and ends with it', async () => {
  const name = newName();
  const stream = client.stream('b', name, TEXT);
  const seen = readAll(client, name, 3);
  assert.equal(await codeOf(seen), '404 STREAM_NOT_FOUND');
  const awaited = stream.follow({ wait: 'create', offset: 0 });
  const first = awaited.next();
  await stream.create(TEXT);
  await stream.append('one');
  assert.equal(textOf((await first).value?.data ?? new Uint8Array(0)), 'one');
  const second = awaited.next();
  await stream.append('two');
  assert.deepEqual((await second).value?.offset, 6);
  const third = awaited.next();
  await stream.delete();
  assert.equal(await codeOf(third), '404 STREAM_NOT_FOUND');
});

test('many appends are few batches, a slow follower holds its own stream only, and large appends keep their order', async () => {
  const name = newName();
  const stream = client.stream('b', name, TEXT);
  await stream.create(TEXT);
  const slow = stream.follow();
  const texts = Array.from({ length: 3000 }, (_, i) => `${i},`.padEnd(i % 500 === 0 ? 100_000 : 300, '.'));
  const offsets = await Promise.all(texts.map((text) => stream.append(text)));
  let end = 0;
  for (const [i, offset] of offsets.entries()) assert.equal(offset, (end += texts[i]?.length ?? 0));
  assert.equal(await readAll(client, name, end), texts.join(''));
  let text = '';
  for await (const { data } of slow) {
    text += textOf(data);
    if (text.length === end) break;
  }
  assert.equal(text, texts.join(''));
});

test('connections that are cut again and again lose nothing and repeat nothing', async () => {
  const relay = await Relay.open();
  relay.targetPort = server.port;
  const far = connect(`http://127.0.0.1:${relay.port}`);
  const name = newName();
  const stream = far.stream('b', name, TEXT);
  await stream.create(TEXT);
  const texts = Array.from({ length: 400 }, (_, i) => `${i};`);
  const whole = texts.join('');
  const seen = readAll(far, name, whole.length);
  for (const [i, text] of texts.entries()) {
    const append = stream.append(text);
    if (i % 40 === 0) relay.cut();
    if (i % 7 === 0) await append;
  }
  assert.equal(await seen, whole);
  assert.equal((await stream.head()).offset, whole.length);
  far.close();
  relay.close();
});

test('a follower that was without a connection goes on in its own stream, and in no other one of its name', async (t) => {
  const relay = await Relay.open();
  t.after(() => relay.close());
  relay.targetPort = server.port;
  const ways: readonly ConnectOptions[] = [{}, { WebSocket: NoSocket }];
  for (const way of ways) {
    const far = connect(`http://127.0.0.1:${relay.port}`, way);
    t.after(() => far.close());
    const name = newName();
    const stream = client.stream('b', name, TEXT);
    await stream.create({ ...TEXT, data: 'one' });
    const follower = far.stream('b', name).follow();
    assert.equal((await follower.next()).value?.offset, 3);
    relay.cut();
    await stream.append('two');
    assert.equal((await follower.next()).value?.offset, 6);
    relay.cut();
    await stream.delete();
    await stream.create({ ...TEXT, data: 'another one' });
    await assert.rejects(follower.next(), {
      status: 404,
      code: 'STREAM_NOT_FOUND',
      message: /another one of its name/,
    });
    assert.equal(await readAll(far, name, 11), 'another one');
  }
});

test('a stored position is one of the stream that told it, and of no other one of its name', async (t) => {
  const far = connect(server.url, { WebSocket: NoSocket });
  t.after(() => far.close());
  const gone = { status: 404, code: 'STREAM_NOT_FOUND', message: /another one of its name/ };
  for (const reader of [client, far]) {
    const name = newName();
    const stream = client.stream('b', name);
    const open = (): MillraceStream => reader.stream('b', name);
    await stream.create({ contentType: 'application/json', data: '["one","two"]' });
    const { offset = 0, incarnation } = (await open().follow().next()).value ?? {};
    assert.match(incarnation ?? '', /^[0-9a-f]{16}$/);
    const one = await open().records().follow().next();
    assert.deepEqual(one.value, { record: 0, value: 'one', incarnation });
    await stream.append('3');
    assert.equal(textOf((await open().follow({ offset, incarnation }).next()).value?.data ?? new Uint8Array()), '[3]');
    assert.equal((await open().records().follow({ record: 2, incarnation }).next()).value?.value, 3);
    // The successor of one stream is longer, that of another shorter, and of the third a record lies over the offset.
    for (const data of [`["one","two",${'3'.repeat(99)},4]`, '1', `["${'long'.repeat(9)}"]`]) {
      await stream.delete();
      await stream.create({ contentType: 'application/json', data });
      await assert.rejects(open().follow({ offset, incarnation }).next(), gone);
      await assert.rejects(open().records().follow({ record: 2, incarnation }).next(), gone);
      await assert.rejects(open().follow({ offset: 'now', live: false, incarnation }).next(), gone);
    }
    assert.notEqual((await open().follow().next()).value?.incarnation, incarnation);
  }
});

test('a follower whose stream is followed by a shorter one of its name is told the same', async (t) => {
  const relay = await Relay.open();
  t.after(() => relay.close());
  relay.targetPort = server.port;
  const far = connect(`http://127.0.0.1:${relay.port}`);
  t.after(() => far.close());
  const stream = client.stream('b', newName(), TEXT);
  await stream.create({ ...TEXT, data: 'one' });
  const follower = far.stream('b', stream.name).follow();
  assert.equal((await follower.next()).value?.offset, 3);
  relay.loses = 'everything';
  relay.cut();
  await stream.delete();
  await stream.create({ ...TEXT, data: '1' });
  relay.loses = 'nothing';
  relay.cut();
  await assert.rejects(follower.next(), { status: 404, code: 'STREAM_NOT_FOUND', message: /another one of its name/ });
});

test('what waits ends with its signal, and everything with the client', async () => {
  const other = connect(server.url, { inFlightBytes: 1000 });
  const name = newName();
  const stream = other.stream('b', name, TEXT);
  await stream.create(TEXT);
  const abort = new AbortController();
  const follower = stream.follow({ signal: abort.signal }).next();
  abort.abort(new Error('enough'));
  await assert.rejects(follower, /enough/);
  const large = stream.append('x'.repeat(5000));
  const late = new AbortController();
  const behind = stream.append('y', { signal: late.signal });
  const ready = stream.ready();
  late.abort(new Error('too late'));
  await assert.rejects(behind, /too late/);
  assert.equal(await large, 5000);
  await ready;
  const open = stream.follow({ offset: 'now' }).next();
  other.close();
  assert.equal(await codeOf(open), '0 CLIENT_CLOSED');
  assert.equal(await codeOf(stream.append('z')), '0 CLIENT_CLOSED');
  assert.equal(await codeOf(stream.head()), '0 CLIENT_CLOSED');
});

test('when all that waits for a node is aborted, none is looked for any more', async () => {
  let tries = 0;
  const counted = new Proxy(NoSocket, {
    construct(socket, [url, protocols]: ConstructorParameters<typeof NoSocket>) {
      tries++;
      return new socket(url, protocols);
    },
  });
  const other = connect(`http://127.0.0.1:${await freePort()}`, { WebSocket: counted });
  const stream = other.stream('b', newName(), TEXT);
  for (const signal of [AbortSignal.timeout(100), AbortSignal.timeout(200)])
    await assert.rejects(stream.append('x', { signal }), { name: 'TimeoutError' });
  const before = tries;
  await sleep(1500);
  // One may be under way.
  assert(tries <= before + 1, `${before} tries, then ${tries}`);
  assert(before > 1);
  other.close();
});

test('what makes no sense is refused at once', () => {
  assert.throws(() => connect([]), /name at least one node/);
  assert.throws(() => connect('localhost:4437'), /is no URL of a node/);
});
