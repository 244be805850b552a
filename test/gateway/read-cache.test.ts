// The main thread's memory of answers to reads: what enters, what it says to the shard, and its bounds. That the shard
// only confirms what it would have answered is compared with the model (test/stream/held-reads.ts).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { ReadCache } from '../../src/gateway/read-cache.ts';
import { queryOf } from '../support/asked-query.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import { READ_FLAG_NO_TOUCH, type ReadQuestion, showLineage, showRead } from '../../src/protocol/queries/read.ts';
import {
  HELD_NOTHING,
  HELD_TO_TAIL,
  READ_NOW,
  READ_OFFSET,
  READ_TAIL_RECORDS,
  type ReadFields,
} from '../../src/protocol/read-fields.ts';
import { REPLY_COLD, REPLY_HELD, REPLY_UP_TO_DATE, Reply } from '../../src/protocol/reply.ts';
import { requestFor } from '../../src/protocol/request.ts';

const MAX = 100_000;
const BOUNDS = { bytesMax: MAX, answerBytesMin: 100, answerBytesMax: 60_000 };
const QUESTION: ReadQuestion = {
  ...{ bucket: 'b', stream: 's', mode: READ_OFFSET, value: 0 },
  ...{ maxBytes: 0, maxRecords: 0, readFlags: 0 },
};

/** The question as the shard sees it. */
function asked(cache: ReadCache, question: ReadQuestion, slot = 0): Readonly<ReadFields> {
  const request = requestFor(QUERIES.read, 1, question);
  cache.ask(request, slot);
  return QUERIES.read.request.read(queryOf(request));
}

function bodyOf(size: number, byte = 1): Reply {
  const reply = new Reply();
  reply.reset(0);
  reply.body = new Uint8Array(size).fill(byte);
  reply.nextOffset = size;
  reply.flags = REPLY_UP_TO_DATE;
  showRead(reply, 7, 1000);
  showLineage(reply, 3);
  return reply;
}

/** A shard's reply that says that the held bytes are the answer. */
function held(nextOffset: number): Reply {
  const reply = bodyOf(0);
  reply.body = undefined;
  reply.nextOffset = nextOffset;
  reply.flags |= REPLY_HELD;
  return reply;
}

function read(cache: ReadCache, question: ReadQuestion, reply: Reply, slot = 0): Reply {
  asked(cache, question, slot);
  cache.answered(slot, reply);
  return reply;
}

function warmed(question = QUESTION, size = 1000): ReadCache {
  const cache = new ReadCache(BOUNDS);
  for (let i = 0; i < 2; i++) read(cache, question, bodyOf(size));
  return cache;
}

test('an answer that comes twice is kept, and the third question says so', () => {
  const cache = new ReadCache(BOUNDS);
  assert.equal(asked(cache, QUESTION).held, HELD_NOTHING);
  cache.answered(0, bodyOf(1000));
  assert.equal(cache.bytes, 0);
  assert.equal(asked(cache, QUESTION).held, HELD_NOTHING);
  const second = bodyOf(1000);
  const ring = second.body;
  cache.answered(0, second);
  assert(second.isBodyKept && second.body !== ring, 'what is kept is not the memory of the ring');
  ring?.fill(9);
  const view = asked(cache, QUESTION);
  assert.deepEqual([view.held, view.heldIncarnation, view.heldLineage, view.heldEnd], [HELD_TO_TAIL, 7, 3, 1000]);
  const third = held(1000);
  cache.answered(0, third);
  assert.deepEqual(third.body, new Uint8Array(1000).fill(1));
  assert(third.isBodyKept && !third.has(REPLY_HELD));
  assert.deepEqual(cache.counters, { hits: 1, misses: 2, hitBytes: 1000 });
});

test('a body with memory of its own is kept without a copy', () => {
  const cache = new ReadCache(BOUNDS);
  const replies = [bodyOf(1000), bodyOf(1000)];
  for (const reply of replies) {
    reply.isBodyKept = true;
    read(cache, QUESTION, reply);
  }
  const third = read(cache, QUESTION, held(1000));
  assert.equal(third.body, replies[1]?.body);
});

test('another name, position, bound or form is another question; renewing a lifetime is not', () => {
  const cache = warmed();
  const others: Partial<ReadQuestion>[] = [
    ...[{ bucket: 'c' }, { stream: 't' }, { bucket: 'bs', stream: '' }, { value: 1 }, { value: 2 ** 40 }],
    ...[{ maxBytes: 5000 }, { maxRecords: 1 }, { readFlags: 1 }, { mode: READ_NOW }, { mode: READ_TAIL_RECORDS }],
  ];
  for (const other of others)
    assert.equal(asked(cache, { ...QUESTION, ...other }).held, HELD_NOTHING, JSON.stringify(other));
  assert.equal(asked(cache, { ...QUESTION, readFlags: READ_FLAG_NO_TOUCH }).held, HELD_TO_TAIL);
});

test('a refusal and a new answer end what was held', () => {
  const refusal = new Reply();
  refusal.reset(0);
  refusal.code = errorNumber('STREAM_NOT_FOUND');
  for (const reply of [refusal, bodyOf(1001)]) {
    const cache = warmed();
    read(cache, QUESTION, reply);
    assert.equal(cache.bytes, 0);
    assert.equal(asked(cache, QUESTION).held, HELD_NOTHING);
  }
});

test('a slot that is used again, or was not sent, has no part in other answers', () => {
  const cache = warmed();
  asked(cache, QUESTION, 5);
  cache.forget(5);
  const other = bodyOf(5000);
  cache.answered(5, other);
  cache.answered(5, other);
  assert.equal(cache.counters.misses, 2, 'those of the first two reads');
  assert.equal(asked(cache, QUESTION).heldEnd, 1000);
});

test('two readers of the same range share it, also when one of them hears that it changed', () => {
  const cache = warmed();
  asked(cache, QUESTION, 1);
  asked(cache, QUESTION, 2);
  cache.answered(1, bodyOf(1001));
  const late = held(1000);
  cache.answered(2, late);
  assert.equal(late.body?.length, 1000);
});

test('few bytes, a huge record, refusals and plans for cold bytes are not kept', () => {
  const plan = bodyOf(1000);
  plan.flags |= REPLY_COLD;
  const refusal = bodyOf(1000);
  refusal.code = errorNumber('STREAM_GONE');
  for (const reply of [bodyOf(99), bodyOf(60_001), plan, refusal]) {
    const cache = new ReadCache(BOUNDS);
    for (let i = 0; i < 3; i++) read(cache, QUESTION, reply);
    assert.equal(cache.bytes, 0);
  }
});

test('what was assembled of cold bytes is kept like an answer', () => {
  const cache = new ReadCache(BOUNDS);
  for (let i = 0; i < 2; i++) cache.keep({ ...QUESTION, readFlags: READ_FLAG_NO_TOUCH }, bodyOf(1000));
  assert.equal(asked(cache, QUESTION).held, HELD_TO_TAIL);
});

test('the bound in bytes holds, and what was used last stays', () => {
  const cache = new ReadCache(BOUNDS);
  for (let value = 0; value < 500; value++) {
    for (let i = 0; i < 2; i++) read(cache, { ...QUESTION, value }, bodyOf(1000));
    assert(cache.bytes <= MAX, `${cache.bytes} bytes`);
    assert.equal(asked(cache, { ...QUESTION, value: 0 }).held, HELD_TO_TAIL, `after ${value}`);
  }
  assert(cache.bytes > MAX / 2);
  assert.equal(asked(cache, { ...QUESTION, value: 1 }).held, HELD_NOTHING);
});

test('a scan that reads everything once keeps nothing', () => {
  const cache = warmed();
  const { bytes } = cache;
  for (let value = 1; value < 2000; value++) read(cache, { ...QUESTION, value }, bodyOf(1000));
  assert.equal(cache.bytes, bytes);
});
