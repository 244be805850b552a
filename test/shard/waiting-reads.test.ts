// A node of a cluster and its reads: after a restart, and for what it does not have. The other nodes are the test
// itself.
import type { RaftGroup } from '../../src/protocol/queries/summaries.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { REPLY_TAIL, type Reply } from '../../src/protocol/reply.ts';
import { ALL_GROUPS, requestFor } from '../../src/protocol/request.ts';
import { code, find, tails, text } from './harness.ts';

import { CREATE, Follower, HELLO, empty, entry } from './follower.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';

/** It has shown 'hello', of which its last checkpoint knows nothing, and starts again. */
function restarted(): Follower {
  const node = new Follower();
  node.append(1, [0, 0], [CREATE, HELLO], 2);
  node.turn();
  const slot = node.ask(QUERIES.read.number);
  assert.equal(text(find(node.turn(), slot)), 'hello');
  node.boot();
  assert.equal(node.shard.groups[0]?.state.appliedIndex, 0, 'there was no checkpoint');
  return node;
}

const groupOf = (node: Follower): RaftGroup | undefined => {
  const slot = node.ask(QUERIES.status.number);
  return QUERIES.status.result.read(find(node.turn(), slot)).raft_groups?.[0];
};

test('after a restart reads wait until the log is applied that was there', () => {
  const node = restarted();
  const slots = [QUERIES.read.number, QUERIES.head.number, QUERIES.list.number, QUERIES.usage.number].map((op) =>
    node.ask(op),
  );
  assert.deepEqual(node.turn(), []);
  assert.equal(groupOf(node)?.['caught_up'], false);
  node.append(1, [2, 1], [], 1);
  assert.deepEqual(node.turn(), [], 'not all of it is committed');
  node.append(1, [2, 1], [], 2);
  const replies = node.turn();
  const [listing] = slots.splice(2, 1) as [number];
  const [read, head, usage] = slots.map((slot) => find(replies, slot));
  assert.equal(text(read as Reply), 'hello');
  assert.equal(head?.nextOffset, 5);
  node.turn(100);
  node.tell(node.questions().at(-1) ?? 0, 2);
  assert.equal(QUERIES.list.result.read(find(node.turn(), listing))[0]?.stream_id, 's');
  assert.deepEqual(QUERIES.usage.result.read(usage as Reply).rows, [['b', 5, 1, 2, 5, 1]]);
  assert.equal(groupOf(node)?.['caught_up'], true);
  const again = node.ask(QUERIES.read.number);
  assert.equal(text(find(node.turn(), again)), 'hello');
});

test('without a leader they are eventually refused, and the state of the node is still shown', () => {
  const node = restarted();
  const slot = node.ask(QUERIES.read.number);
  assert.deepEqual(node.turn(), []);
  assert.deepEqual(node.turn(4900), []);
  assert.equal(code(find(node.turn(200), slot)), 'CATCHING_UP');
});

test('what a bucket has, for a write that cannot wait, is told without a leader too, after a moment', () => {
  const node = new Follower();
  node.append(1, [0, 0], [CREATE, HELLO], 2);
  node.turn();
  const ask = (): number => node.request(requestFor(QUERIES.bucket, ALL_GROUPS, { bucket: 'b', isSoon: true }));
  const slot = ask();
  assert.deepEqual(node.turn(), [], 'the leader may know more');
  assert.deepEqual(node.turn(150), []);
  const reply = find(node.turn(50), slot);
  const { streams, retainedBytes } = QUERIES.bucket.result.read(reply);
  assert.deepEqual([code(reply), streams, retainedBytes], ['OK', 1, 5]);
  // The same before its log is known to be committed: what is in the state counts.
  node.boot();
  const early = ask();
  assert.deepEqual(node.turn(), []);
  assert.equal(code(find(node.turn(200), early)), 'OK');
});

test('a new leader cuts off the end of the log, and the bound falls with it', () => {
  const node = new Follower();
  node.append(
    1,
    [0, 0],
    [CREATE, HELLO, entry(3, 1, COMMANDS.append.number, ' never'), entry(4, 1, COMMANDS.append.number, ' ever')],
    2,
  );
  node.turn();
  node.boot();
  const slot = node.ask(QUERIES.read.number);
  assert.deepEqual(node.turn(), []);
  node.append(2, [2, 1], [empty(3, 2)], 2);
  assert.deepEqual(node.turn(), [], 'the entry that took the place may be committed too');
  node.append(2, [3, 2], [], 3);
  assert.equal(text(find(node.turn(), slot)), 'hello');
});

test('a group whose state on disk is all of its log needs no leader', () => {
  const node = new Follower();
  node.append(1, [0, 0], [CREATE, HELLO], 2);
  node.turn();
  node.shard.stop(0, node.clockMs);
  node.boot();
  const slot = node.ask(QUERIES.read.number);
  assert.equal(text(find(node.turn(), slot)), 'hello');
});

test('a node that lost its log shows nothing before it was restored', () => {
  const node = new Follower();
  node.storage.lostGroups.add(0);
  node.boot();
  const slot = node.ask(QUERIES.read.number);
  assert.deepEqual(node.turn(), []);
  assert.equal(groupOf(node)?.['caught_up'], false);
  assert.equal(code(find(node.turn(5100), slot)), 'CATCHING_UP');
});

test('a reader that left before its read was answered is not subscribed', () => {
  const node = restarted();
  const slots = [node.ask(QUERIES.read.number, 7), node.ask(QUERIES.read.number, 8), node.ask(QUERIES.read.number, 9)];
  node.turn();
  for (const topic of [7, 9]) {
    node.source.push(requestFor(QUERIES.unwatch, 0, { topic }), 0);
  }
  node.turn();
  node.append(1, [2, 1], [], 2);
  const replies = node.turn();
  for (const slot of slots) assert.equal(text(find(replies, slot)), 'hello');
  assert.deepEqual(tails(replies, 8), [], 'the answer has it already');
  node.append(1, [2, 1], [entry(3, 1, COMMANDS.append.number, '!')], 3);
  const events = node.turn().filter(({ kind }) => kind === REPLY_TAIL);
  assert.deepEqual(
    events.map(({ id, startOffset }) => [id, startOffset]),
    [[8, 5]],
  );
});

test('what a node does not have it asks the leader for, and waits until it has applied that much', () => {
  const node = new Follower();
  node.append(1, [0, 0], [CREATE], 1);
  node.turn();
  const slot = node.ask(QUERIES.read.number, 0, 5);
  assert.deepEqual(node.turn(), []);
  const [question = 0, ...more] = node.questions();
  assert(question > 0 && more.length === 0, 'one question');
  node.tell(question, 2);
  assert.deepEqual(node.turn(), [], 'the leader is further');
  node.append(1, [1, 1], [HELLO], 2);
  const reply = find(node.turn(), slot);
  assert.equal(code(reply), 'OK');
  assert.equal(reply.nextOffset, 5);
  assert.deepEqual(node.questions(), [], 'no query, no question');
});

test('a refusal that the leader confirms is given at once; the question covers all that came before it', () => {
  const node = new Follower();
  node.append(1, [0, 0], [empty(1, 1)], 1);
  node.turn();
  const slots = [node.ask(QUERIES.read.number), node.ask(QUERIES.head.number)];
  assert.deepEqual(node.turn(), []);
  const [question = 0, ...more] = node.questions();
  assert.deepEqual(more, []);
  // Refused: that leader has not committed in its term.
  node.tell(question, 0);
  assert.deepEqual(node.turn(), []);
  // The answer to a question of another life.
  node.tell(question + 5, 1);
  assert.deepEqual(node.turn(100), []);
  const [again = 0] = node.questions();
  assert(again > question);
  node.tell(again, 1);
  const replies = node.turn();
  for (const slot of slots) assert.equal(code(find(replies, slot)), 'STREAM_NOT_FOUND');
});

test('queries that wait when the node stops are answered', () => {
  const node = restarted();
  const slot = node.ask(QUERIES.read.number);
  node.turn();
  node.shard.stop(0, node.clockMs);
  assert.equal(code(find(node.target.take(), slot)), 'STOPPING');
});

test('too many waiting reads are refused at once', () => {
  const node = restarted();
  const slots: number[] = [];
  for (let i = 0; i < 60_000; i++) {
    slots.push(node.ask(QUERIES.read.number));
    if (i % 10_000 === 0) node.turn();
  }
  const refused: Reply[] = [];
  refused.push(...node.turn());
  const refusals = refused.filter((reply) => code(reply) === 'CATCHING_UP');
  assert(refusals.length > 1000 && refusals.length < 30_000, `${refusals.length} of ${slots.length}`);
});
