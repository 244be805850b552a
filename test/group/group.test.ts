// A group as its shard sees it, with two silent peers: which requests wait, and their answers when nothing arrives.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ENTRY_EMPTY, type Entry } from '../../src/raft/types.ts';
import { expiryKey } from '../../src/stream/core/keys.ts';
import { State } from '../../src/stream/core/state.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';
import { Host } from './host.ts';

test('a group that does not lead refuses commands at once', () => {
  const host = new Host();
  host.submit(1);
  assert.equal(host.answers.get(1), 'NO_LEADER');
  assert.equal(host.group.seal(), false);
});

test('commands of one turn are one entry, and are answered when a majority has it', () => {
  const host = new Host();
  host.elect();
  const before = host.group.raft.lastIndex;
  for (let slot = 1; slot <= 5; slot++) host.submit(slot);
  assert.equal(host.group.seal(), true);
  assert.equal(host.group.raft.lastIndex, before + 1);
  host.work();
  assert.equal(host.answers.size, 0, 'on one disk of three is not enough');
  assert.equal(host.group.waitingCount, 5);
  host.answerFrom2();
  assert.deepEqual([...host.answers.values()], ['OK', 'OK', 'OK', 'OK', 'OK']);
  assert.equal(host.group.waitingCount, 0);
});

test('a proposal whose place in the log another leader took is refused as not written', () => {
  const host = new Host();
  host.elect();
  host.submit(1);
  host.submit(2);
  host.group.seal();
  host.work();
  const { term, lastIndex } = host.group.raft;
  const index = lastIndex;
  // One more entry, whose index the new leader does not reach: nothing may ever be written there.
  host.submit(3);
  host.group.seal();
  host.work();
  const entry: Entry = { term: term + 1, index, kind: ENTRY_EMPTY, data: new Uint8Array(0) };
  host.group.raft.step({
    type: 'append',
    from: 3,
    to: 1,
    term: term + 1,
    prevIndex: index - 1,
    prevTerm: host.log.term(index - 1),
    entries: [entry],
    commit: index,
    round: 1,
    allowedBoot: 0,
    restored: false,
  });
  host.work();
  assert(!host.group.leads);
  assert.deepEqual(
    [...host.answers],
    [1, 2, 3].map((slot) => [slot, 'NO_LEADER']),
  );
  assert.equal(host.group.waitingCount, 0);
  assert.equal(host.group.state.appliedIndex, index);
});

test('requests that wait when the group stops get an unknown outcome', () => {
  const host = new Host();
  host.elect();
  host.submit(1);
  host.group.seal();
  host.work();
  host.submit(2);
  host.group.failWaiting();
  assert.equal(host.answers.get(1), 'OUTCOME_UNKNOWN', 'it is in the log');
  assert.equal(host.answers.get(2), 'STOPPING', 'it never was');
  host.answerFrom2();
  assert.equal(host.answers.size, 2, 'no request is answered twice');
  assert.equal(host.group.seal(), false, 'what was gathered is gone');
});

test('a leader that commits nothing answers what waits; one that commits slowly does not', () => {
  const host = new Host();
  host.elect();
  const waits = { followerMs: 1000, leaderMs: 30_000 };
  const at = (clockMs: number): void => {
    host.group.beginTurn(clockMs);
    host.group.expireWaiting(waits);
  };
  host.submit(1);
  host.group.seal();
  host.work();
  at(20_000);
  host.submit(2);
  host.group.seal();
  host.work();
  assert.equal(host.answers.size, 0);
  at(30_001);
  assert.deepEqual([...host.answers], [[1, 'OUTCOME_UNKNOWN']]);
  host.answerFrom2();
  assert.equal(host.answers.get(2), 'OK');
  host.submit(3);
  host.group.seal();
  host.work();
  at(60_000);
  assert.equal(host.answers.has(3), false, 'an entry was committed at 30 s');
  at(60_002);
  assert.equal(host.answers.get(3), 'OUTCOME_UNKNOWN');
});

test('a group snapshot begins another lineage: its leader may have lost what readers hold', () => {
  const { group } = new Host();
  for (let lineage = 1; lineage <= 3; lineage++) {
    assert.equal(group.state.lineage, lineage);
    group.installState(new State(0, new SortedMapTx()));
  }
});

test('a leader looks for expired streams again after an entry, and after a snapshot up to the same index', () => {
  const host = new Host();
  host.elect();
  host.answerFrom2();
  const { group } = host;
  const proposes = (nowMs: number): boolean => (group.expire(nowMs), group.seal());
  assert.equal(proposes(1000), false);
  const state = new State(0, new SortedMapTx());
  state.enter(group.state.appliedIndex, group.state.appliedTerm);
  state.overlay.put(expiryKey(state.prefix, 1000, 1), new Uint8Array(0));
  group.installState(state);
  assert.equal(proposes(999), false);
  assert.equal(proposes(1000), true);
  host.work();
  host.answerFrom2();
  assert.equal(proposes(1000), false, 'the entry has removed the deadline');
});
