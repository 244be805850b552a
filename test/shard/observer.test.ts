// The events about a shard's streams for subscriptions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { REPLY_TAIL, type Reply } from '../../src/protocol/reply.ts';
import { requestFor } from '../../src/protocol/request.ts';
import { OBSERVER_EVENT, type ObserveRequest } from '../../src/protocol/queries/watching.ts';
import { Glob } from '../../src/base/glob.ts';
import { Harness, find } from './harness.ts';
import { QUERIES } from '../../src/protocol/operations.ts';

const TOPIC = 9;

function observe(harness: Harness, action: ObserveRequest['action'], bucket: string, stream = ''): Reply {
  const asked: ObserveRequest =
    action === 'watch' || action === 'forget'
      ? { topic: TOPIC, action, bucket, stream }
      : { topic: TOPIC, action, pattern: bucket };
  const slot = harness.push(requestFor(QUERIES.observe, 0, asked));
  return find(harness.turn(), slot);
}

/** [stream, tail, removed] of each row of the turn's events. */
function heard(replies: readonly Reply[]): unknown[] {
  return replies
    .filter((reply) => reply.kind === REPLY_TAIL && reply.id === TOPIC)
    .flatMap((reply) => {
      const event = OBSERVER_EVENT.read(reply);
      assert('moved' in event);
      return event.moved;
    })
    .map(({ bucket, stream, incarnation, tail, isRemoved }) => {
      assert.equal(bucket, 'bucket');
      assert(incarnation > 0);
      return [stream, tail, isRemoved ? 1 : 0];
    });
}

test('a name is answered with its position, and its changes are reported from then on, once a turn', () => {
  const harness = new Harness([0]);
  harness.create(0, 'a', { body: 'xyz' });
  harness.turn();
  const there = observe(harness, 'watch', 'bucket', 'a');
  const { incarnation, tail } = QUERIES.observe.result.read(there);
  assert(tail === 3 && incarnation > 0);
  const missing = observe(harness, 'watch', 'bucket', 'b');
  assert.deepEqual([missing.code, QUERIES.observe.result.read(missing)], [0, { incarnation: 0, tail: 0 }]);
  harness.append(0, 'a', '1');
  harness.append(0, 'a', '2');
  harness.create(0, 'b');
  harness.create(0, 'stranger', { body: 'x' });
  assert.deepEqual(heard(harness.turn()), [
    ['a', 5, 0],
    ['b', 0, 0],
  ]);
  harness.remove(0, 'a');
  assert.deepEqual(heard(harness.turn()), [['a', 5, 1]]);
});

test('a pattern reports streams created later; forgetting ends it', () => {
  const harness = new Harness([0]);
  observe(harness, 'watch-pattern', 'bucket/*');
  harness.create(0, 'a', { body: 'x' });
  harness.create(0, 'a/b', { body: 'x' });
  assert.deepEqual(heard(harness.turn()), [['a', 1, 0]]);
  observe(harness, 'watch', 'bucket', 'a/b');
  observe(harness, 'forget-pattern', 'bucket/*');
  harness.append(0, 'a', '1');
  harness.append(0, 'a/b', '1');
  assert.deepEqual(heard(harness.turn()), [['a/b', 2, 0]]);
  observe(harness, 'forget', 'bucket', 'a/b');
  harness.append(0, 'a/b', '1');
  assert.deepEqual(heard(harness.turn()), []);
});

test('patterns that begin with another name cost a stream nothing', (t) => {
  const harness = new Harness([0]);
  for (let i = 0; i < 100; i++) observe(harness, 'watch-pattern', `tenant-${i}/**`);
  const matches = t.mock.method(Glob.prototype, 'matches');
  harness.create(0, 'a');
  assert.deepEqual(heard(harness.turn()), []);
  assert.equal(matches.mock.callCount(), 0);
  observe(harness, 'watch-pattern', 'bucket/**');
  observe(harness, 'forget-pattern', 'tenant-7/**');
  harness.append(0, 'a', 'x');
  assert.deepEqual(heard(harness.turn()), [['a', 1, 0]]);
  assert.equal(matches.mock.callCount(), 1);
});

test('a stream that is recreated within a turn is reported twice, the old one as removed', () => {
  const harness = new Harness([0]);
  harness.create(0, 'a', { body: 'xyz' });
  harness.turn();
  observe(harness, 'watch-pattern', '**');
  harness.remove(0, 'a');
  harness.create(0, 'a', { body: 'x' });
  assert.deepEqual(heard(harness.turn()), [
    ['a', 3, 1],
    ['a', 1, 0],
  ]);
});
