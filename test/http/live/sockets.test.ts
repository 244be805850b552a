// Effects that only real sockets show: back-pressure, the library's own timeouts, many connections.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { closed } from '../../support/sockets.ts';
import { openSse, type SseClient, startLive } from './harness.ts';

function offsetText(offset: number): string {
  return String(offset).padStart(20, '0');
}

/** Has the client's last event told it that it is at `offset`? Cheap, because it is asked for every chunk. */
function isAt(client: SseClient, offset: number): boolean {
  return client.events.at(-1)?.data.includes(offsetText(offset)) === true;
}

test('a reader that stops reading goes to catch-up, comes back, and has lost nothing', async (t) => {
  const server = await startLive(t);
  const { live } = server.ctx.metrics;
  server.gateway.create('b/s');
  const slow = await openSse(t, server, 's');
  const quick = await openSse(t, server, 's');
  let content = '';
  const append = (): void => {
    const chunk = `${String(content.length).padStart(9, '0')}\n`.repeat(5_000);
    content += chunk;
    server.gateway.append('b/s', chunk);
  };
  for (let round = 1; round <= 2; round++) {
    slow.socket.pause();
    while (live.slowReaders < round) {
      append();
      await quick.until(() => isAt(quick, content.length));
      assert.ok(content.length < 100_000_000, 'the kernel cannot hold that much');
    }
    // Events that come now are in no buffer.
    for (let i = 0; i < 10; i++) append();
    await quick.until(() => isAt(quick, content.length));
    slow.socket.resume();
    await slow.until(() => isAt(slow, content.length));
    assert.equal(slow.control()['upToDate'], true);
    const reads = server.gateway.reads.length;
    append();
    await slow.until(() => isAt(slow, content.length));
    assert.equal(server.gateway.reads.length, reads, 'it follows the feed again');
  }
  await quick.until(() => isAt(quick, content.length));
  assert.ok(slow.payload() === content);
  assert.ok(quick.payload() === content);
});

test('a thousand readers get every event, in order', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s', 'application/json');
  const clients = await Promise.all(Array.from({ length: 1000 }, () => openSse(t, server, 's')));
  assert.equal(server.gateway.topics.size, 1);
  const expected: string[] = [];
  for (let i = 0; i < 20; i++) {
    const record = JSON.stringify({ i, payload: 'x'.repeat(200) });
    expected.push(`[${record}]`);
    server.gateway.append('b/s', record);
    if (i % 3 === 0) await turn();
  }
  await Promise.all(clients.map((client) => client.untilEvents(41)));
  for (const client of clients) {
    const data = client.events.filter((event) => event.type === 'data').map((event) => event.data);
    assert.deepEqual(data, expected);
  }
  assert.equal(server.gateway.reads.length, 1000, 'one read for each reader, to begin with');
  assert.equal(server.ctx.metrics.live.sseDataEvents, 20_000);
  server.gateway.close('b/s');
  await Promise.all(clients.map((client) => client.until(() => client.ended)));
});

test('a closed socket is noticed while the topic is busy', async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const clients = await Promise.all(Array.from({ length: 50 }, () => openSse(t, server, 's')));
  const staying = clients.filter((_, index) => index % 2 === 0);
  for (const client of clients) if (!staying.includes(client)) client.socket.destroy();
  while (server.ctx.metrics.live.sseReaders > staying.length) {
    server.gateway.append('b/s', 'x');
    await turn();
  }
  server.gateway.append('b/s', 'end');
  for (const client of staying) await client.until(() => client.payload().endsWith('end'));
});

test("quiet readers outlive the library's idle timeout", async (t) => {
  const server = await startLive(t);
  server.gateway.create('b/s');
  const quiet = await openSse(t, server, 's');
  const drained = await openSse(t, server, 's');
  // One reader has had a full socket: then the library's timeout has been running once.
  drained.socket.pause();
  let bytes = 0;
  while (server.ctx.metrics.live.slowReaders === 0) {
    server.gateway.append('b/s', 'x'.repeat(60_000));
    bytes += 60_000;
    await turn();
  }
  drained.socket.resume();
  await drained.until(() => isAt(drained, bytes));
  await quiet.until(() => isAt(quiet, bytes));
  const poll = fetch(server.url('s', 'offset=now&live=long-poll'));
  while (server.ctx.metrics.live.longPolls === 0) await turn();
  // This connection is idle in the library's eyes. When it is cut off, the others would have been, had they been
  // counted.
  const idle = connect(server.port, '127.0.0.1');
  idle.write('GET /none?offset=-1&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\n');
  idle.resume();
  await closed(idle);
  server.gateway.append('b/s', 'still here');
  await Promise.all([quiet, drained].map((client) => client.until(() => client.payload().endsWith('still here'))));
  assert.equal(await (await poll).text(), 'still here');
});
