// Snapshots that others publish while a reader asks, and answers that are lost: a proxy sees each request.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { type MillraceStream, type PublishedSnapshot, connect } from '../../src/client/client.ts';
import { codeOf, textOf } from './answers.ts';
import { NoSocket } from './no-socket.ts';
import { startNode } from './node.ts';

const TEXT = { contentType: 'text/plain' };
const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const { server, client } = await startNode();
/** Runs before the node sees a request. True: the answer is lost. */
let before: (asked: string) => Promise<boolean> | boolean = () => false;
const proxy = createServer((near, answer) => {
  const forward = async (): Promise<void> => {
    const { method = '', url = '', headers } = near;
    const isLost = await before(`${method} ${url}`);
    const onward = request(server.url + url, { method, headers }, (response) => {
      if (isLost) answer.destroy();
      else answer.writeHead(response.statusCode ?? 0, response.headers);
      response.pipe(answer);
    });
    near.pipe(onward);
  };
  void forward();
});
proxy.listen(0, '127.0.0.1');
await once(proxy, 'listening');
const far = connect(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, { WebSocket: NoSocket });
after(() => {
  far.close();
  proxy.closeAllConnections();
  proxy.close();
});

/** One with a message for each letter. */
async function newStream(name: string): Promise<MillraceStream> {
  const stream = client.stream('b', name, TEXT);
  await stream.create(TEXT);
  for (const letter of LETTERS) await stream.append(letter);
  return stream;
}

/** Publishes what stands for so many letters, and discards these. */
async function replace(stream: MillraceStream, letters: number): Promise<void> {
  await stream.publishSnapshot({ offset: letters }, LETTERS.slice(0, letters));
  await stream.retain({ offset: letters });
}

const shown = (snapshot: PublishedSnapshot | undefined): unknown =>
  snapshot && [textOf(snapshot.data), snapshot.offset];

for (const [when, published, moment] of [
  ['behind its redirect', 1, /^GET .*\/snapshot\/\d+$/],
  ['after it found none', 0, /^HEAD /],
] as const) {
  test(`a snapshot that is published while a reader asks, ${when}, is the one that it gets`, async () => {
    const stream = await newStream(when);
    if (published > 0) await replace(stream, published);
    let letters = published;
    let isDue = true;
    before = async (asked) => {
      if (isDue && moment.test(asked)) {
        isDue = false;
        await replace(stream, ++letters);
      }
      return false;
    };
    const { snapshot, offset } = await far.stream('b', when).bootstrap();
    assert.deepEqual([shown(snapshot), offset], [[LETTERS.slice(0, letters), letters], letters]);
    isDue = published > 0;
    assert.deepEqual(shown(await far.stream('b', when).snapshot()), [LETTERS.slice(0, letters), letters]);
    assert.equal(letters, published * 2 + 1);
  });
}

test('a fork of a stream that discarded its beginning has a floor without a snapshot', async () => {
  await replace(await newStream('forked'), 3);
  const fork = await client.stream('b', 'forked').fork({ name: 'fork' });
  assert.deepEqual(await fork.bootstrap(), { snapshot: undefined, offset: 3 });
  assert.equal(await fork.snapshot(), undefined);
});

test('a reader does not ask without end for snapshots that are replaced each time', async () => {
  const stream = await newStream('quick');
  let letters = 1;
  await replace(stream, letters);
  before = async (asked) => {
    if (/^GET .*\/snapshot\/\d+$/.test(asked)) await replace(stream, ++letters);
    return false;
  };
  assert.equal(await codeOf(far.stream('b', 'quick').bootstrap()), '404 SNAPSHOT_NOT_FOUND');
  assert(letters > 5, `${letters} snapshots`);
});

test('a snapshot that replaces one is no conflict with itself when its answer is lost', async () => {
  const stream = await newStream('lost');
  await stream.publishSnapshot({ offset: 1 }, 'a');
  const replaces = (await stream.snapshot())?.digest ?? '';
  let sent = 0;
  before = (asked) => asked.startsWith('PUT ') && sent++ === 0;
  await far.stream('b', 'lost').publishSnapshot({ offset: 2 }, 'ab', { replaces });
  assert.equal(sent, 2);
  assert.deepEqual(shown(await stream.snapshot()), ['ab', 2]);
  assert.equal(await codeOf(stream.publishSnapshot({ offset: 3 }, 'abc', { replaces })), '409 SNAPSHOT_MISMATCH');
});

test('a removal whose answer is lost is done, also when forks hold the name', async () => {
  const stream = await newStream('forked');
  await stream.fork({ name: 'fork' });
  let sent = 0;
  before = (asked) => asked.startsWith('DELETE ') && sent++ === 0;
  await far.stream('b', 'forked').delete();
  assert.equal(sent, 2);
  assert.equal(await codeOf(far.stream('b', 'forked').delete()), '410 STREAM_DELETED');
});
