import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ENTRY_DATA } from '../../src/raft/types.ts';
import type { AppendRequest, Entry } from '../../src/raft/types.ts';
import { SMALL_OPTIONS, TestNode, emptyDisk } from './support/node.ts';

/** Messages that a real leader of ours rarely sends, but that the rules allow. */

function entry(index: number, term: number): Entry {
  return { term, index, kind: ENTRY_DATA, data: Uint8Array.of(term) };
}

function follower(terms: readonly number[]): TestNode {
  const disk = emptyDisk({ voters: [1, 2, 3], votersOutgoing: [], learners: [] });
  disk.log.write(terms.map((term, at) => entry(at + 1, term)));
  disk.hardState = { term: terms[terms.length - 1] ?? 0, vote: 0, commit: 0 };
  return new TestNode(2, disk, SMALL_OPTIONS, 1, new Map());
}

function append(fields: Partial<AppendRequest>): AppendRequest {
  return {
    type: 'append',
    from: 1,
    to: 2,
    term: 3,
    prevIndex: 0,
    prevTerm: 0,
    entries: [],
    commit: 0,
    round: 1,
    allowedBoot: 0,
    restored: false,
    ...fields,
  };
}

test('the commit index of a message holds only up to what the message compared (§3.5)', () => {
  const node = follower([1, 1, 2, 2]);
  node.raft.step(append({ prevIndex: 1, prevTerm: 1, entries: [entry(2, 1)], commit: 4 }));
  assert.equal(node.raft.commitIndex, 2, "entries 3 and 4 may differ from the leader's");
  assert.equal(node.raft.lastIndex, 4, 'nothing conflicted, so nothing is cut');
});

test('a heartbeat beyond the log is not believed', () => {
  const node = follower([1]);
  node.raft.step({ type: 'heartbeat', from: 1, to: 2, term: 3, commit: 9, round: 1, allowedBoot: 0, restored: false });
  assert.equal(node.raft.commitIndex, 0);
});

test('a late append that ends before the commit index is acknowledged with the commit index', () => {
  const node = follower([3, 3, 3]);
  node.raft.step(append({ prevIndex: 3, prevTerm: 3, commit: 3 }));
  node.turn();
  node.raft.step(append({ prevIndex: 0, entries: [entry(1, 3)], commit: 1 }));
  const [answer] = node.turn();
  assert.ok(answer?.type === 'append-response' && !answer.reject && answer.index === 3);
});

test('the acknowledgements of one turn become one', () => {
  const node = follower([3]);
  for (let index = 2; index <= 5; index += 1) {
    node.raft.step(append({ prevIndex: index - 1, prevTerm: 3, entries: [entry(index, 3)], round: index }));
  }
  const answers = node.turn();
  assert.deepEqual(
    answers.map((each) => each.type === 'append-response' && [each.index, each.round]),
    [[5, 5]],
  );
});

test('an acknowledgement waiting for the disk dies with the entries that it spoke of', () => {
  const node = follower([3]);
  node.raft.step(append({ prevIndex: 1, prevTerm: 3, entries: [entry(2, 3), entry(3, 3)] }));
  node.raft.step(append({ from: 3, term: 4, prevIndex: 1, prevTerm: 3, entries: [entry(2, 4)] }));
  const answers = node.turn();
  assert.deepEqual(
    answers.map((each) => [each.to, each.term, each.type === 'append-response' && each.index]),
    [[3, 4, 2]],
  );
});

test('while a write is in flight no second one and no acknowledgement is handed out, but heartbeats are answered', () => {
  const node = follower([3]);
  node.raft.step(append({ prevIndex: 1, prevTerm: 3, entries: [entry(2, 3)] }));
  node.begin();
  node.raft.step(append({ prevIndex: 2, prevTerm: 3, entries: [entry(3, 3)], round: 2 }));
  node.raft.step({ type: 'heartbeat', from: 1, to: 2, term: 3, commit: 1, round: 3, allowedBoot: 0, restored: false });
  assert.deepEqual(
    node.begin().map((each) => each.type),
    ['heartbeat-response'],
  );
  assert.deepEqual(
    node.finish().map((each) => each.type === 'append-response' && each.index),
    [2],
  );
  assert.deepEqual(
    node.turn().map((each) => each.type === 'append-response' && each.index),
    [3],
  );
});

test('two leaders in one term stop the process', () => {
  const node = follower([3]);
  node.raft.step(append({}));
  assert.throws(() => node.raft.step(append({ from: 3 })), /two leaders/);
});
