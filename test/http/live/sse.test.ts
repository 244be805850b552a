import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TAIL_EVENT_BYTES_MAX } from '../../../src/base/limits.ts';
import { cursorSpan } from '../../../src/topics/events.ts';
import { LINGER_MS } from '../../../src/topics/topic.ts';
import { openSse, SseClient, startLive } from './harness.ts';

test('a reader gets what is there, then what comes, each data event with its control event', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  server.gateway.append('b/s', 'one\n');
  const client = await openSse(t, server, 's');
  assert.match(client.head, /^HTTP\/1\.1 200 OK\r\n/);
  assert.match(client.head, /content-type: text\/event-stream/);
  assert.match(client.head, /cache-control: no-cache/);
  assert.match(client.head, /x-content-type-options: nosniff/);
  assert.match(client.head, /stream-data-content-type: text\/plain/);
  assert.doesNotMatch(client.head, /content-length|stream-sse-data-encoding/i);
  server.gateway.append('b/s', 'two\n');
  server.gateway.append('b/s', 'three\n');
  await client.until(() => client.payload() === 'one\ntwo\nthree\n');
  await client.untilEvents(6);
  assert.deepEqual(
    client.events.map((event) => event.type),
    ['data', 'control', 'data', 'control', 'data', 'control'],
  );
  assert.deepEqual(client.control(), {
    streamNextOffset: '00000000000000000014',
    streamCursor: String(cursorSpan(Date.now())),
    upToDate: true,
  });
  // Everything after the first answer came by the feed.
  assert.equal(server.gateway.reads.length, 1);
});

test('offset=now begins at the tail; the first control event says where', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  server.gateway.append('b/s', 'old');
  const client = await openSse(t, server, 's', 'offset=now');
  assert.deepEqual(
    client.events.map((event) => event.type),
    ['control'],
  );
  assert.equal(client.control()['streamNextOffset'], '00000000000000000003');
  server.gateway.append('b/s', 'new');
  await client.until(() => client.payload() === 'new');
});

test('JSON travels as arrays and says the first record, bytes as base64', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/j', 'application/json');
  server.gateway.create('b/x', 'application/octet-stream');
  server.gateway.append('b/j', '{"n":1}');
  const json = await openSse(t, server, 'j');
  assert.match(json.head, /stream-extensions: json-record-coordinates-v1/);
  assert.equal(json.control()['streamFirstRecord'], 0);
  server.gateway.append('b/j', '{"n":2}');
  await json.until(() => json.payload() === '[{"n":1}][{"n":2}]');
  const bytes = await openSse(t, server, 'x');
  assert.match(bytes.head, /stream-sse-data-encoding: base64/);
  server.gateway.append('b/x', Buffer.from([0, 13, 255]));
  await bytes.until(() => bytes.payload() === 'AA3/');
});

test('a JSON reader that starts at the tail gets no empty data event', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/j', 'application/json');
  const client = await openSse(t, server, 'j');
  assert.deepEqual(
    client.events.map((event) => event.type),
    ['control'],
  );
});

test('catch-up goes in bounded steps, then live', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const line = `${'x'.repeat(99)}\n`;
  for (let i = 0; i < 100; i++) server.gateway.append('b/s', line.repeat(100));
  const client = await openSse(t, server, 's');
  await client.until(() => client.control()['upToDate'] === true);
  assert.equal(client.payload().length, 1_000_000);
  assert.ok(client.events.length >= 8, 'several steps');
  assert.equal(client.control(0)['upToDate'], undefined);
  assert.ok(server.gateway.reads.slice(1).every((read) => read.noTouch && read.maxBytes <= 256 * 1024));
  server.gateway.append('b/s', 'end');
  await client.until(() => client.payload().endsWith('end'));
});

test('a character that two appends share is sent whole, and no control event points into it', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const euro = Buffer.from('€');
  server.gateway.append('b/s', Buffer.concat([Buffer.from('a'), euro.subarray(0, 1)]));
  const client = await openSse(t, server, 's');
  assert.equal(client.payload(), 'a');
  assert.equal(client.control()['streamNextOffset'], '00000000000000000001');
  assert.equal(client.control()['upToDate'], undefined);
  const atTail = await openSse(t, server, 's', 'offset=now');
  server.gateway.append('b/s', Buffer.concat([euro.subarray(1), Buffer.from('b'), euro.subarray(0, 2)]));
  await client.until(() => client.payload() === 'a€b');
  assert.equal(client.control()['streamNextOffset'], '00000000000000000005');
  server.gateway.append('b/s', Buffer.concat([euro.subarray(2), Buffer.from('c')]));
  await client.until(() => client.payload() === 'a€b€c');
  assert.equal(client.control()['upToDate'], true);
  // A reader that asked for an offset inside a character gets the rest of it, as it is.
  await atTail.until(() => atTail.payload().endsWith('€c'));
});

test('the bytes of a character that is never finished come when the stream is closed', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const client = await openSse(t, server, 's');
  server.gateway.append('b/s', Buffer.from([0x61, 0xe2]));
  await client.until(() => client.payload() === 'a');
  server.gateway.close('b/s');
  await client.until(() => client.ended);
  assert.equal(client.payload(), 'a\ufffd');
  assert.deepEqual(client.control(), { streamNextOffset: '00000000000000000002', upToDate: true, streamClosed: true });
});

test('closing, with or without last bytes, ends the answer after a control event that says so', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const first = await openSse(t, server, 's');
  server.gateway.append('b/s', 'last', true);
  await first.until(() => first.ended);
  assert.equal(first.payload(), 'last');
  const end = { streamNextOffset: '00000000000000000004', upToDate: true, streamClosed: true };
  assert.deepEqual(first.control(), end);
  const second = await openSse(t, server, 's', 'offset=4');
  await second.until(() => second.ended);
  assert.deepEqual(second.events, [{ type: 'control', data: JSON.stringify(end) }]);
  assert.equal(server.node.live.topicCount, 1, 'the topic of the late reader lingers');
  server.advance(LINGER_MS + 100);
  assert.equal(server.node.live.topicCount, 0);
});

test('a deleted stream ends with an error event, and what was appended before arrives', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const client = await openSse(t, server, 's');
  server.gateway.append('b/s', 'last words');
  server.gateway.remove('b/s');
  await client.until(() => client.ended);
  assert.equal(client.payload(), 'last words');
  assert.deepEqual(client.events.at(-1), { type: 'error', data: 'stream not found' });
});

test('refusals are ordinary answers', async (t) => {
  const server = await startLive(t, { watchersPerCoreMax: 1 });
  const missing = await fetch(server.url('none', 'offset=-1&live=sse'));
  assert.equal(missing.status, 404);
  await missing.text();
  server.gateway.create('b/s');
  const beyond = await fetch(server.url('s', 'offset=7&live=sse'));
  assert.equal(beyond.status, 416);
  assert.equal(beyond.headers.get('stream-next-offset'), '00000000000000000000');
  await beyond.text();
  server.gateway.refuse = 1;
  const busy = await fetch(server.url('s', 'offset=-1&live=sse'));
  assert.equal(busy.status, 503);
  assert.equal(busy.headers.get('retry-after'), '1');
  await busy.text();
  const only = await openSse(t, server, 's');
  for (const live of ['sse', 'long-poll']) {
    const refused = await fetch(server.url('s', `offset=-1&live=${live}`));
    assert.equal(refused.status, 503);
    await refused.text();
  }
  assert.equal(server.ctx.metrics.live.refused, 2);
  await only.close();
});

test('a cursor that is not behind is advanced, for that reader only', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const span = cursorSpan(Date.now());
  const ahead = await openSse(t, server, 's', `offset=-1&cursor=${span + 1000}`);
  const plain = await openSse(t, server, 's', 'offset=-1&cursor=5');
  server.gateway.append('b/s', 'x');
  await ahead.until(() => ahead.payload() === 'x' && ahead.control()['streamNextOffset'] !== '00000000000000000000');
  await plain.until(() => plain.payload() === 'x' && plain.control()['streamNextOffset'] !== '00000000000000000000');
  assert.ok(Number(ahead.control()['streamCursor']) > span + 1000);
  assert.equal(ahead.control()['streamCursor'], ahead.control(0)['streamCursor']);
  assert.ok(Number(plain.control()['streamCursor']) <= span + 1);
});

test('a quiet reader gets comments, and a clean end when its time is over', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const client = await openSse(t, server, 's');
  for (let round = 1; round <= 3; round++) {
    server.advance(15_100);
    await client.until(() => client.comments === round);
  }
  server.advance(20_000);
  await client.until(() => client.ended);
  assert.equal(client.events.length, 1);
});

test('lifetimes differ, so that readers who came together do not come back together', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const clients = await Promise.all(Array.from({ length: 20 }, () => openSse(t, server, 's')));
  let early = 0;
  for (let ms = 0; ms < 64_000; ms += 500) {
    server.advance(500);
    if (ms < 60_000) early = 20 - server.node.live.memberCount;
  }
  assert.ok(early > 0 && early < 20, `${early} of 20 ended before 60 s`);
  for (const client of clients) await client.until(() => client.ended);
});

test('a client that goes away at any moment leaves nothing behind', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const live = server.node.live;
  const client = await openSse(t, server, 's');
  await client.close();
  server.gateway.manual = true;
  const waiting = new SseClient(server.port, '/s?offset=-1&live=sse');
  t.after(() => waiting.close());
  while (server.gateway.reads.length < 2) await new Promise((resolve) => setImmediate(resolve));
  await waiting.close();
  while (live.memberCount > 0) await new Promise((resolve) => setImmediate(resolve));
  // The answer to a reader that is gone is dropped.
  server.gateway.pump();
  server.gateway.append('b/s', 'x');
  server.gateway.pump();
  server.advance(LINGER_MS + 100);
  assert.equal(live.topicCount, 0);
  assert.equal(server.gateway.topics.size, 0);
});

test('the end of the server ends every answer cleanly and refuses new ones', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const client = await openSse(t, server, 's');
  const poll = fetch(server.url('s', 'offset=0&live=long-poll'));
  while (server.ctx.metrics.live.longPolls === 0 || server.gateway.reads.length < 2) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  server.gateway.append('b/s', 'x');
  server.gateway.pump();
  server.node.live.stop();
  await client.until(() => client.ended);
  assert.equal(client.payload(), 'x');
  assert.equal((await poll).status, 200);
  const late = await fetch(server.url('s', 'offset=0&live=sse'));
  assert.equal(late.status, 503);
  await late.text();
});

test('reads by record go on by record', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/j', 'application/json');
  for (let i = 0; i < 3; i++) server.gateway.append('b/j', String(i));
  const client = await openSse(t, server, 'j', 'record=1');
  assert.equal(client.payload(), '[1,2]');
  assert.equal(client.control()['streamNextRecord'], 3);
  server.gateway.append('b/j', '3');
  await client.until(() => client.payload() === '[1,2][3]');
  assert.equal(client.control()['streamNextRecord'], 4);
  assert.equal(server.gateway.reads.at(-1)?.value, 3);
});

test('a stream that is refused while its topic waits for the cold store ends its readers', async (t) => {
  const server = await startLive(t);
  const { gateway } = server;
  gateway.create('b/s');
  const client = await openSse(t, server, 's');
  // Too many bytes for an event: the topic reads them, and they have moved to the cold store.
  gateway.append('b/s', Buffer.alloc(TAIL_EVENT_BYTES_MAX + 1));
  gateway.flush('b/s');
  gateway.pump();
  assert.equal(gateway.held.length, 1);
  gateway.refuseStream('b/s', 'ROW_DAMAGED');
  gateway.pump();
  gateway.release();
  gateway.pump();
  // It reads again, and is refused.
  await client.until(() => client.ended);
});

test('events are of the type that a reader asks for, beside readers of the other one', async (t) => {
  const server = await startLive(t);
  for (const [name, contentType, sent] of [
    ['text', 'text/plain', (text: string): string => text],
    ['bytes', 'image/png', (text: string): string => Buffer.from(text).toString('base64')],
  ] as const) {
    server.gateway.create(`b/${name}`, contentType);
    server.gateway.append(`b/${name}`, 'old');
    const [plain, asked] = [await openSse(t, server, name), await openSse(t, server, name, 'offset=0&event=message')];
    server.gateway.append(`b/${name}`, 'new');
    for (const [client, type] of [
      [plain, 'data'],
      [asked, 'message'],
    ] as const) {
      await client.untilEvents(4);
      const control = client.events[1]?.data;
      assert.deepEqual(client.events.slice(0, 3), [
        { type, data: sent('old') },
        { type: 'control', data: control },
        { type, data: sent('new') },
      ]);
      assert.equal(client.head.includes('stream-sse-data-encoding: base64'), name === 'bytes');
    }
  }
});
