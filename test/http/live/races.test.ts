// Readers, writers, full sockets and full mailboxes in random order, step by step: no
// reader may lose, repeat or reorder a byte.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRandom, type Random, seedFromEnvironment } from '../../support/random.ts';
import type { FakeResponse } from './fake-response.ts';
import { type Received, World, received } from './world.ts';

const SHORT_READ_BYTES_MAX = 50;
const BODY_BESIDE_CRAWLERS_BYTES = 1000;
/** Readers of five bytes at a time met large bodies in it, and the round took a million steps. */
const SLOW_ROUND_SEED = 436_921_687;

interface Reader {
  readonly response: FakeResponse;
  /** -1: wherever the tail was. */
  readonly start: number;
}

function checkReader(reader: Reader, content: Buffer): Received {
  const got = received(reader.response, reader.start);
  if (got.next === undefined) return got;
  const start = got.next - got.bytes.length;
  assert.equal(got.bytes.compare(content.subarray(start, got.next)), 0, 'the bytes of the stream, in order, once');
  if (reader.start >= 0) assert.equal(start, reader.start);
  return got;
}

function nextBody(random: Random, text: boolean): Buffer {
  if (random.chance(0.02)) return Buffer.alloc(random.int(70_000, 300_000), 'large ');
  if (!text) return random.bytes(random.int(1, 40));
  // Cut anywhere, also inside a character.
  const whole = Buffer.from('aé€😀 b'.repeat(random.int(1, 4)));
  return whole.subarray(random.int(0, 5), random.int(6, whole.length));
}

async function runRound(random: Random, contentType: string, cold: boolean): Promise<void> {
  const world = new World();
  const { gateway } = world;
  gateway.create('b/s', contentType);
  let content: Buffer = Buffer.alloc(0);
  const readers: Reader[] = [];
  const polls: Reader[] = [];
  /** A reader takes a few bytes at a time: a large body would cost it a hundred thousand reads. */
  let isCrawling = false;
  const steps = random.int(50, 300);
  for (let step = 0; step < steps; step++) {
    const some = readers.length > 0 ? random.pick(readers).response : undefined;
    switch (random.int(0, 9)) {
      case 0: {
        const now = random.chance(0.3);
        // Not inside a character: what a text reader gets there is right, but not comparable byte by byte.
        const start = now ? -1 : random.chance(0.5) ? 0 : content.length;
        const offset = now ? 'now' : start;
        const maxBytes = content.length < 10_000 ? random.int(1, SHORT_READ_BYTES_MAX) : random.int(1000, 9000);
        if (random.chance(0.3)) polls.push({ response: world.open('long-poll', offset), start });
        else {
          const isShort = random.chance(0.2);
          isCrawling ||= isShort && maxBytes <= SHORT_READ_BYTES_MAX;
          readers.push({ response: world.open('sse', offset, isShort ? maxBytes : 0), start });
        }
        break;
      }
      case 1:
      case 2:
      case 3: {
        const drawn = nextBody(random, contentType.startsWith('text/'));
        const body = isCrawling ? drawn.subarray(0, BODY_BESIDE_CRAWLERS_BYTES) : drawn;
        content = Buffer.concat([content, body]);
        gateway.append('b/s', body);
        break;
      }
      case 4:
        if (some !== undefined) some.full = true;
        break;
      case 5:
        if (some?.full === true) some.drain();
        break;
      case 6:
        if (random.chance(0.2)) some?.abort();
        else if (cold && random.chance(0.3)) gateway.flush('b/s');
        else if (random.chance(0.3)) gateway.refuse = random.int(1, 4);
        else world.advance(random.int(0, 2000));
        break;
      case 7:
        await Promise.resolve();
        if (random.chance(0.5)) gateway.release(random.int(0, gateway.held.length));
        break;
      default:
        gateway.pump(random.int(1, 6));
    }
  }
  gateway.refuse = 0;
  const end = random.int(0, 2);
  if (end === 1) gateway.close('b/s');
  if (end === 2) gateway.remove('b/s');
  for (let i = 0; i < 3; i++) {
    for (const { response } of readers) response.drain();
    await world.settle();
  }
  for (const reader of readers) {
    const { response } = reader;
    if (!response.status.startsWith('200')) continue;
    const got = checkReader(reader, content);
    if (response.aborted) continue;
    assert.equal(response.ended, end !== 0);
    if (end === 0 && got.next !== undefined)
      assert.ok(content.length - got.next <= 3, 'up to the tail, but for a cut character');
    if (end === 1) assert.ok(got.closed && got.next === content.length);
  }
  for (const { response, start } of polls) {
    if (!response.ended || !response.status.startsWith('200')) continue;
    const next = Number(response.headers.get('stream-next-offset'));
    const bytes = Buffer.concat(response.sent);
    assert.equal(bytes.compare(content.subarray(next - bytes.length, next)), 0);
    if (start >= 0) assert.equal(next - bytes.length, start);
  }
  for (const { response } of [...readers, ...polls]) response.abort();
  const live = world.node.live;
  await world.settle();
  assert.equal(live.memberCount, 0);
  assert.equal(live.bufferedBytes, 0);
  world.advance(10_000);
  assert.equal(live.topicCount, 0);
  assert.equal(live.clock.size, 0);
}

for (const [contentType, cold] of [
  ['application/octet-stream', false],
  ['text/plain', false],
  ['application/octet-stream', true],
  ['text/plain', true],
] as const) {
  test(`random interleavings lose nothing (${contentType}, ${cold ? 'with late answers' : 'all hot'})`, async () => {
    const first = seedFromEnvironment();
    for (const seed of [SLOW_ROUND_SEED, ...Array.from({ length: 150 }, (_, round) => first + round)]) {
      await runRound(createRandom(seed), contentType, cold).catch((error: unknown) => {
        throw new Error(`SEED=${seed} fails`, { cause: error });
      });
    }
  });
}

test('an answer that comes late does not hide what was appended meanwhile', async () => {
  const world = new World();
  const { gateway } = world;
  gateway.create('b/s', 'application/octet-stream');
  gateway.append('b/s', 'cold');
  gateway.flush('b/s');
  const readers = [world.open('sse', 0), world.open('sse', 0)];
  gateway.pump();
  assert.equal(gateway.held.length, 2);
  gateway.append('b/s', 'hot');
  gateway.pump();
  // They reached the tail as it was when they were planned. Nothing else is appended that could tell the readers.
  await world.settle();
  for (const response of readers) {
    const got = received(response, 0);
    assert.equal(got.bytes.toString(), 'coldhot');
    const text = Buffer.concat(response.sent).toString();
    assert.match(text.slice(text.lastIndexOf('event: control')), /"upToDate":true/);
    response.abort();
  }
});

test('an append between the answer and the join arrives once', async () => {
  const world = new World();
  world.gateway.create('b/s', 'application/octet-stream');
  const first = world.open('sse', 0);
  await world.settle();
  const second = world.open('sse', 0);
  // The event is ahead of the second reader's answer, which covers it; then one that is behind it.
  world.gateway.append('b/s', 'one');
  world.gateway.pump(2);
  world.gateway.append('b/s', 'two');
  await world.settle();
  for (const response of [first, second]) {
    const got = received(response, 0);
    assert.equal(got.bytes.toString(), 'onetwo');
    response.abort();
  }
});

test('bytes that an event lacks are read once for all readers', async () => {
  const world = new World();
  world.gateway.create('b/s', 'application/octet-stream');
  const readers = Array.from({ length: 50 }, () => world.open('sse', 0));
  const polls = Array.from({ length: 50 }, () => world.open('long-poll', 0));
  await world.settle();
  const before = world.gateway.reads.length;
  const large = Buffer.alloc(200_000, 'x');
  world.gateway.append('b/s', large);
  world.gateway.append('b/s', 'tail');
  await world.settle();
  assert.equal(world.gateway.reads.length, before + 1);
  for (const response of readers) {
    assert.equal(received(response, 0).bytes.length, 200_004);
    response.abort();
  }
  for (const response of polls) assert.equal(Buffer.concat(response.sent).length, 200_004);
});

test('readers of a deleted stream get nothing of the stream that takes its name', async () => {
  const world = new World();
  world.gateway.create('b/s', 'application/octet-stream');
  world.gateway.append('b/s', Buffer.alloc(600_000));
  const catchingUp = world.open('sse', 0);
  const following = world.open('sse', 'now');
  world.gateway.pump(5);
  world.gateway.remove('b/s');
  world.gateway.create('b/s', 'application/octet-stream');
  world.gateway.append('b/s', Buffer.alloc(700_000, 1));
  const fresh = world.open('sse', 600_000);
  await world.settle();
  assert.ok(received(following, -1).error);
  assert.ok(following.ended && catchingUp.ended);
  assert.ok(!received(catchingUp, 0).bytes.includes(1));
  assert.equal(received(fresh, 600_000).bytes.length, 100_000);
  fresh.abort();
});
