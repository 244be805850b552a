import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cursorSpan } from '../../../src/topics/events.ts';
import { type LiveServer, startLive } from './harness.ts';

function poll(server: LiveServer, query: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(server.url('s', `${query}&live=long-poll`), { headers });
}

/** The READ of the newest long-poll has been answered, so it waits. */
async function untilWaiting(server: LiveServer, reads: number): Promise<void> {
  while (server.gateway.reads.length < reads) await new Promise((resolve) => setImmediate(resolve));
  server.gateway.pump();
}

const OFFSET = 'stream-next-offset';

test('bytes that are there are the answer', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  server.gateway.append('b/s', 'hello');
  const spanBefore = cursorSpan(Date.now());
  const response = await poll(server, 'offset=-1');
  assert.equal(response.status, 200);
  assert.equal(await response.text(), 'hello');
  assert.equal(response.headers.get(OFFSET), '00000000000000000005');
  assert.equal(response.headers.get('stream-up-to-date'), 'true');
  const cursor = Number(response.headers.get('stream-cursor'));
  assert(cursor >= spanBefore && cursor <= cursorSpan(Date.now()), `${cursor}`);
  assert.equal(response.headers.get('content-type'), 'text/plain');
  assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
  const etag = response.headers.get('etag') ?? '';
  assert.match(etag, /^"[^"]+"$/);
  const unchanged = await poll(server, 'offset=-1', { 'if-none-match': etag });
  assert.deepEqual([unchanged.status, unchanged.headers.get('content-type')], [304, 'text/plain']);
  server.gateway.append('b/s', '!');
  const changed = await poll(server, 'offset=-1', { 'if-none-match': etag });
  assert.equal(changed.status, 200);
  await changed.text();
});

test('a waiting request is answered by the event, without another read', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  server.gateway.append('b/s', 'old');
  const pending = poll(server, 'offset=now');
  await untilWaiting(server, 1);
  server.gateway.append('b/s', 'new');
  const response = await pending;
  assert.equal(response.status, 200);
  assert.equal(await response.text(), 'new');
  assert.equal(response.headers.get(OFFSET), '00000000000000000006');
  assert.equal(response.headers.get('stream-up-to-date'), 'true');
  assert.equal(server.gateway.reads.length, 1);
  // The same range read later has the same tag.
  const again = await poll(server, 'offset=3');
  assert.equal(again.headers.get('etag'), response.headers.get('etag'));
  await again.text();
});

test('a waiting request is refused when the node can say nothing of the stream any more', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  server.gateway.append('b/s', 'old');
  const pending = poll(server, 'offset=now');
  await untilWaiting(server, 1);
  server.gateway.refuseStream('b/s', 'ROW_DAMAGED');
  const response = await pending;
  assert.equal(response.status, 503);
  assert.equal(response.headers.get('millrace-error'), 'ROW_DAMAGED');
  assert.notEqual(response.headers.get('retry-after'), null);
  await response.text();
});

test('without news it is 204 with position and cursor when the time is over', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  server.gateway.append('b/s', 'x');
  const span = cursorSpan(Date.now());
  const pending = poll(server, `offset=1&timeout_ms=500&cursor=${span + 7}`);
  await untilWaiting(server, 1);
  server.advance(499);
  assert.equal(server.node.live.memberCount, 1);
  server.advance(60);
  const response = await pending;
  assert.equal(response.status, 204);
  assert.equal(response.headers.get(OFFSET), '00000000000000000001');
  assert.equal(response.headers.get('stream-up-to-date'), 'true');
  assert.ok(Number(response.headers.get('stream-cursor')) > span + 7);
  assert.equal(response.headers.get('stream-closed'), null);
});

test('at the end of a closed stream it is 204 at once, and the same when it is closed meanwhile', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  server.gateway.append('b/s', 'x');
  const pending = poll(server, 'offset=1');
  await untilWaiting(server, 1);
  server.gateway.close('b/s');
  for (const response of [await pending, await poll(server, 'offset=1')]) {
    assert.equal(response.status, 204);
    assert.equal(response.headers.get('stream-closed'), 'true');
    assert.equal(response.headers.get('stream-up-to-date'), 'true');
    assert.equal(response.headers.get(OFFSET), '00000000000000000001');
    assert.equal(response.headers.get('stream-cursor'), null);
  }
});

test('the last append of a stream arrives with the news of its end', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const pending = poll(server, 'offset=-1');
  await untilWaiting(server, 1);
  server.gateway.append('b/s', 'end', true);
  const response = await pending;
  assert.equal(response.status, 200);
  assert.equal(await response.text(), 'end');
  assert.equal(response.headers.get('stream-closed'), 'true');
});

test('a stream that is deleted meanwhile is 404', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const pending = poll(server, 'offset=-1');
  await untilWaiting(server, 1);
  server.gateway.remove('b/s');
  const response = await pending;
  assert.equal(response.status, 404);
  await response.text();
  const missing = await poll(server, 'offset=-1');
  assert.equal(missing.status, 404);
  await missing.text();
});

test('max_bytes and large events are served by a read', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const bounded = poll(server, 'offset=0&max_bytes=2');
  await untilWaiting(server, 1);
  server.gateway.append('b/s', 'abc');
  assert.equal(await (await bounded).text(), 'ab');
  const large = poll(server, 'offset=3');
  await untilWaiting(server, 3);
  server.gateway.append('b/s', 'y'.repeat(100_000));
  assert.equal((await (await large).text()).length, 100_000);
});

test('an aborted request leaves nothing behind; the topic lingers for the next one', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const live = server.node.live;
  const controller = new AbortController();
  const aborted = fetch(server.url('s', 'offset=0&live=long-poll'), { signal: controller.signal });
  await untilWaiting(server, 1);
  controller.abort();
  await assert.rejects(aborted);
  while (live.memberCount > 0) await new Promise((resolve) => setImmediate(resolve));
  server.advance(4_000);
  const next = poll(server, 'offset=0');
  await untilWaiting(server, 2);
  assert.equal(server.gateway.topics.size, 1);
  assert.equal(server.gateway.reads[1]?.topic, server.gateway.reads[0]?.topic, 'the same topic serves again');
  server.advance(6_000);
  server.gateway.append('b/s', 'x');
  assert.equal(await (await next).text(), 'x');
  server.advance(5_100);
  assert.equal(live.topicCount, 0);
  assert.deepEqual(server.gateway.closedTopics, [1]);
});

test('a thousand waiting requests get the same append', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const pending = Array.from({ length: 1000 }, () => poll(server, 'offset=0'));
  await untilWaiting(server, 1000);
  server.gateway.append('b/s', 'all');
  for (const response of await Promise.all(pending)) assert.equal(await response.text(), 'all');
  assert.equal(server.gateway.reads.length, 1000);
});

test('when the server stops, a waiting request is answered 204', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const pending = poll(server, 'offset=0');
  await untilWaiting(server, 1);
  server.node.live.stop();
  assert.equal((await pending).status, 204);
});

test('reads by record wait and answer by record', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s', 'application/json');
  server.gateway.append('b/s', '1');
  const pending = poll(server, 'record=1');
  await untilWaiting(server, 1);
  server.gateway.append('b/s', '2');
  const response = await pending;
  assert.equal(await response.text(), '[2]');
  assert.equal(response.headers.get('stream-record-start'), '1');
  assert.equal(response.headers.get('stream-record-next'), '2');
});
