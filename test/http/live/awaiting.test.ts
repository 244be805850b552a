// Readers that wait for a stream that is not there yet.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LiveServer, SseClient, startLive } from './harness.ts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** So many READs have been asked, and answered. */
async function untilAsked(server: LiveServer, reads: number): Promise<void> {
  while (server.gateway.reads.length < reads) await turn();
  server.gateway.pump();
}

test('a long-poll and an event stream go on as usual when the stream is made', async (t) => {
  const server = await startLive(t);
  const poll = fetch(server.url('s', 'offset=-1&live=long-poll&wait=create'));
  const events = new SseClient(server.port, '/s?offset=-1&live=sse&wait=create&event=message');
  t.after(() => events.close());
  await untilAsked(server, 2);
  assert.deepEqual([server.node.live.topicCount, server.node.live.memberCount], [1, 2], 'one topic for both');
  server.gateway.create('b/s');
  await untilAsked(server, 4);
  server.gateway.append('b/s', 'first');
  assert.equal(await (await poll).text(), 'first');
  await events.until(() => events.events.some(({ type, data }) => type === 'message' && data === 'first'));
  assert.equal(events.control()['streamNextOffset'], '00000000000000000005');
});

test('an event stream whose stream is made early in its wait is kept alive from then on', async (t) => {
  const server = await startLive(t);
  const events = new SseClient(server.port, '/s?offset=0&live=sse&wait=create&timeout_ms=60000');
  t.after(() => events.close());
  await untilAsked(server, 1);
  server.gateway.create('b/s');
  await events.untilEvents(1);
  server.advance(15_100);
  // The end of its life, whatever came before.
  server.advance(60_000);
  await events.until(() => events.comments > 0);
});

test('who awaits a stream at its tail gets everything that is appended to it', async (t) => {
  const server = await startLive(t);
  server.gateway.manual = true;
  const poll = fetch(server.url('s', 'offset=now&live=long-poll&wait=create'));
  const events = new SseClient(server.port, '/s?offset=now&live=sse&wait=create');
  t.after(() => events.close());
  await untilAsked(server, 2);
  server.gateway.create('b/s');
  server.gateway.append('b/s', 'first');
  server.gateway.pump();
  server.advance(31_000);
  assert.equal(await (await poll).text(), 'first');
  await events.untilEvents(2);
  assert.deepEqual(events.events[0], { type: 'data', data: 'first' });
});

test('a stream that is gone again when it is looked for is awaited again', async (t) => {
  const server = await startLive(t);
  server.gateway.manual = true;
  const poll = fetch(server.url('s', 'offset=-1&live=long-poll&wait=create'));
  await untilAsked(server, 1);
  server.gateway.create('b/s');
  server.gateway.remove('b/s');
  server.gateway.pump();
  assert.equal(server.gateway.reads.length, 2);
  server.gateway.create('b/s');
  server.gateway.append('b/s', 'late');
  server.gateway.pump();
  assert.equal(await (await poll).text(), 'late');
});

test('the wait ends with 404 as a long-poll ends, and with that of the server or the client', async (t) => {
  const server = await startLive(t);
  const queries = ['live=long-poll', 'live=sse', 'live=long-poll&timeout_ms=1000'];
  const asked = queries.map((query) => fetch(server.url('s', `offset=0&wait=create&${query}`)));
  await untilAsked(server, 3);
  server.advance(1_100);
  const short = await asked[2];
  assert.deepEqual([short?.status, short?.headers.get('millrace-error')], [404, 'STREAM_NOT_FOUND']);
  await short?.text();
  server.advance(28_000);
  await turn();
  assert.equal(server.node.live.memberCount, 2);
  server.advance(1_000);
  for (const answer of await Promise.all(asked.slice(0, 2))) {
    assert.equal(answer.status, 404);
    await answer.text();
  }
  assert.equal(server.node.live.topicCount, 0, 'nothing lingers');
  const left = new SseClient(server.port, '/s?offset=0&live=sse&wait=create');
  await untilAsked(server, 4);
  await left.close();
  while (server.node.live.memberCount > 0) await turn();
  const last = fetch(server.url('s', 'offset=0&live=sse&wait=create'));
  await untilAsked(server, 5);
  server.node.live.stop();
  assert.equal((await last).status, 503);
});

test('a full mailbox is tried again, and a refusal is the last word', async (t) => {
  const server = await startLive(t);
  const poll = fetch(server.url('s', 'offset=-1&live=long-poll&wait=create&timeout_ms=1000'));
  await untilAsked(server, 1);
  server.gateway.create('b/s');
  server.gateway.append('b/s', 'x');
  server.gateway.refuse = 1;
  server.gateway.pump();
  server.advance(60);
  assert.equal(await (await poll).text(), 'x');
  const late = fetch(server.url('none', 'offset=-1&live=long-poll&wait=create&timeout_ms=1000'));
  await untilAsked(server, 3);
  server.gateway.create('b/none');
  server.gateway.refuse = 1;
  server.gateway.pump();
  server.advance(2_000);
  assert.equal((await late).status, 503);
});

test('those that wait count among the readers of the node; without wait it is 404 at once', async (t) => {
  const server = await startLive(t, { watchersPerCoreMax: 1 });
  const poll = fetch(server.url('s', 'offset=0&live=long-poll&wait=create'));
  await untilAsked(server, 1);
  const refused = await fetch(server.url('other', 'offset=0&live=sse&wait=create'));
  assert.deepEqual([refused.status, refused.headers.get('millrace-error')], [503, 'WATCHERS_FULL']);
  server.advance(30_100);
  assert.equal((await poll).status, 404);
  for (const live of ['sse', 'long-poll'])
    assert.equal((await fetch(server.url('s', `offset=0&live=${live}`))).status, 404);
});
