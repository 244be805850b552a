// Tails of streams as the shards tell them: an answer and an event that come in one go keep their order.
import { OBSERVER_EVENT } from '../../../src/protocol/queries/watching.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReplyHandler, ShardGateway, TailHandler } from '../../../src/ports.ts';
import { reaches } from '../../../src/subscriptions/service/locate.ts';
import { Tails } from '../../../src/subscriptions/service/tails.ts';
import { REPLY_TAIL, Reply } from '../../../src/protocol/reply.ts';
import { errorNumber } from '../../../src/base/errors.ts';
import { QUERIES } from '../../../src/protocol/operations.ts';
import { PROCESS_RUNTIME } from '../../../src/server/runtime.ts';

class Shards implements ShardGateway {
  readonly groupCount = 1;
  readonly shardCount = 1;
  readonly asked: ReplyHandler[] = [];
  topic: TailHandler | undefined;

  groupOf = (): number => 0;
  send = (_request: unknown, handler: ReplyHandler): boolean => {
    this.asked.push(handler);
    return true;
  };
  openTopic = (handler: TailHandler): number => {
    this.topic = handler;
    return 1;
  };
  closeTopic = (): void => undefined;

  answer(incarnation: number, offset: number): void {
    this.reply((reply) => QUERIES.observe.result.write(reply, { incarnation, tail: offset }));
  }

  reply(write: (reply: Reply) => void): void {
    const reply = new Reply();
    reply.reset(1);
    write(reply);
    this.asked.shift()?.onReply(reply);
  }

  event(...rows: (readonly [string, string, number, number, number])[]): void {
    const reply = new Reply();
    reply.reset(1);
    reply.kind = REPLY_TAIL;
    const moved = rows.map(([bucket, stream, incarnation, tail, removed]) => {
      return { bucket, stream, incarnation, tail, isRemoved: removed === 1 };
    });
    OBSERVER_EVENT.write(reply, rows.length === 0 ? { replacedGroup: 0 } : { moved });
    this.topic?.onTail(reply);
  }
}

function followed(): { readonly shards: Shards; readonly tails: Tails; readonly heard: string[] } {
  const shards = new Shards();
  const heard: string[] = [];
  const tails = new Tails(shards, PROCESS_RUNTIME, {
    moved: (path, tail, removed) =>
      heard.push(`${path} ${tail.incarnation}/${tail.offset}${removed ? ' removed' : ''}`),
    found: (path, tail) => heard.push(`${path} found ${tail.incarnation}/${tail.offset}`),
    missed: () => heard.push('missed'),
  });
  return { shards, tails, heard };
}

test('an event behind an answer in the same run is not undone by it', async () => {
  const { shards, tails } = followed();
  const known = tails.want('a/b');
  shards.answer(1, 8);
  shards.event(['a', 'b', 1, 16, 0]);
  await known;
  assert.deepEqual(tails.of('a/b'), { incarnation: 1, offset: 16 });
});

test('the end of a stream is remembered, and that of an older one does not hide the present one', async () => {
  const { shards, tails, heard } = followed();
  const known = tails.want('a/b');
  shards.answer(1, 8);
  await known;
  shards.event(['a', 'b', 2, 5, 0], ['a', 'b', 1, 8, 1]);
  assert.deepEqual(tails.of('a/b'), { incarnation: 2, offset: 5 });
  shards.event(['a', 'b', 2, 5, 1]);
  assert.deepEqual(tails.of('a/b'), { incarnation: 0, offset: 0 });
  assert.equal(tails.ended('a/b'), 2);
  assert.deepEqual(heard, ['a/b found 1/8', 'a/b 2/5', 'a/b 1/8 removed', 'a/b 2/5 removed']);
});

test('after a replaced state everything that is wanted is asked for again', async () => {
  const { shards, tails, heard } = followed();
  const known = tails.want('a/b');
  shards.answer(0, 0);
  await known;
  shards.event();
  assert.equal(heard.at(-1), 'missed');
  shards.answer(3, 7);
  assert.deepEqual(tails.of('a/b'), { incarnation: 3, offset: 7 });
  tails.release('a/b');
  assert.equal(tails.of('a/b'), undefined);
});

test('of thousands of streams that are wanted at once a group is asked for a few at a time', async () => {
  const { shards, tails, heard } = followed();
  const all = Array.from({ length: 5000 }, async (_, i) => await tails.want(`a/${i}`));
  let most = 0;
  let answers = 0;
  while (answers < all.length) {
    most = Math.max(most, shards.asked.length);
    assert(shards.asked.length > 0, `a shard is asked after ${answers} answers`);
    for (let left = shards.asked.length; left > 0; left--) {
      shards.answer(1, 8);
      answers++;
    }
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  await Promise.all(all);
  assert(most <= 64, `${most} at once`);
  assert.equal(heard.length, all.length);
  assert.deepEqual(tails.of('a/4999'), { incarnation: 1, offset: 8 });
});

test('what a node without a tail takes for an offset of the stream is what one with a tail does', async () => {
  const head = { tag: '', hotStart: 0, ttlSeconds: -1, expiresAtMs: -1, incarnation: 3, snapshot: undefined };
  for (const code of ['STREAM_GONE', 'OFFSET_INSIDE_RECORD', 'OFFSET_OUT_OF_RANGE'] as const) {
    const shards = new Shards();
    const reached = reaches(shards, 'a/b', 5);
    shards.reply((reply) => Object.assign(reply, { code: errorNumber(code) }));
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    shards.reply((reply) => QUERIES.head.result.write(reply, head));
    const { incarnation } = await reached;
    assert.equal(incarnation, code === 'OFFSET_OUT_OF_RANGE' ? 0 : 3, code);
  }
});
