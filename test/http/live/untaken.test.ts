// Event streams that leave bytes untaken: what waits is bounded, for each of them and for all together.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WAITING_BYTES_MAX } from '../../../src/http/backpressure.ts';
import { BUFFERED_BYTES_MAX } from '../../../src/http/live/live.ts';
import { World, received } from './world.ts';

test('a thousand readers that stop reading hold a bounded part of memory', async () => {
  const world = new World();
  world.gateway.create('b/s', 'application/octet-stream');
  const readers = Array.from({ length: 1000 }, () => world.open('sse', 0));
  await world.settle();
  for (const response of readers) response.full = true;
  for (let i = 0; i < 60; i++) {
    world.gateway.append('b/s', Buffer.alloc(50_000));
    await world.settle();
  }
  const kept = readers.reduce((sum, response) => sum + response.keptBytes, 0);
  // One frame for each reader may come on top: whether a socket is full shows only when it is written to.
  assert.ok(kept < BUFFERED_BYTES_MAX + 1000 * 70_000, `${kept} bytes wait`);
  assert.ok(world.node.ctx.metrics.live.slowReaders > 900);
  for (const response of readers.slice(0, 10)) response.drain();
  await world.settle();
  for (const response of readers.slice(0, 10)) assert.equal(received(response, 0).bytes.length, 3_000_000);
  for (const response of readers) response.abort();
});

test('a large record waits in memory for a few readers only; the others are cut and may come back', async () => {
  const world = new World();
  const { live } = world.node;
  world.gateway.create('b/s', 'application/json');
  const readers = Array.from({ length: 5 }, () => world.open('sse', 0));
  await world.settle();
  for (const response of readers) response.full = true;
  // As if others had not taken so much.
  live.bufferedBytes += WAITING_BYTES_MAX - 10_000_000;
  world.gateway.append('b/s', JSON.stringify('x'.repeat(4_000_000)));
  await world.settle();
  const kept = readers.filter((response) => !response.aborted);
  assert.equal(kept.length, 2);
  assert.ok(live.bufferedBytes <= WAITING_BYTES_MAX);
  const early = world.open('sse', 0);
  await world.settle();
  assert.ok(early.aborted, 'there is no room yet');
  for (const response of kept) response.drain();
  await world.settle();
  const back = world.open('sse', 0);
  await world.settle();
  assert.deepEqual([live.bufferedBytes, live.memberCount], [WAITING_BYTES_MAX - 10_000_000, 3]);
  for (const response of [...kept, back]) {
    assert.ok(response.sent.reduce((sum, bytes) => sum + bytes.length, 0) > 4_000_000);
    response.abort();
  }
});

test('beyond the bound of all readers one that leaves much untaken is cut, and the others go on', async () => {
  const world = new World();
  const { live } = world.node;
  world.gateway.create('b/s');
  const [slow, slower, quick] = [world.open('sse', 0), world.open('sse', 0), world.open('sse', 0)];
  await world.settle();
  slow.full = true;
  // As if others had not taken so much.
  live.bufferedBytes += WAITING_BYTES_MAX + 1;
  world.gateway.append('b/s', 'a'.repeat(10_000));
  await world.settle();
  slower.full = true;
  world.gateway.append('b/s', 'b'.repeat(70_000));
  await world.settle();
  assert.deepEqual([slow.aborted, slower.aborted, live.memberCount], [false, true, 2]);
  const back = world.open('sse', 10_000);
  await world.settle();
  assert.equal(received(back, 10_000).bytes.length, 70_000);
  assert.ok(world.gateway.reads.at(-1)?.maxBytes === 32 * 1024, 'in short steps');
  slow.drain();
  await world.settle();
  for (const response of [slow, quick]) assert.equal(received(response, 0).bytes.length, 80_000);
  for (const response of [slow, quick, back]) response.abort();
  assert.equal(live.bufferedBytes, WAITING_BYTES_MAX + 1);
});

test('a reader whose socket takes nothing for long is cut off', async () => {
  const world = new World();
  world.gateway.create('b/s', 'application/octet-stream');
  const reader = world.open('sse', 0);
  await world.settle();
  reader.full = true;
  world.gateway.append('b/s', 'x');
  await world.settle();
  for (let ms = 0; ms < 20_000; ms += 1000) world.advance(1000);
  assert.ok(!reader.aborted);
  for (let ms = 0; ms < 20_000; ms += 1000) world.advance(1000);
  assert.ok(reader.aborted);
  assert.equal(world.node.live.memberCount, 0);
});
