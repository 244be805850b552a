import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Raft } from '../../src/raft/raft.ts';
import { ENTRY_DATA, ENTRY_EMPTY } from '../../src/raft/types.ts';
import type { Entry } from '../../src/raft/types.ts';
import { MemoryLog } from './support/memory-log.ts';

const data = new Uint8Array([1, 2, 3]);

function single(log: MemoryLog, term: number, applied: number, commit: number): Raft {
  return new Raft({
    nodeId: 1,
    electionTicks: 10,
    heartbeatTicks: 1,
    maxMessageBytes: 1 << 20,
    maxInflightBytes: 4 << 20,
    maxEntryBytes: 1e8,
    maxUncommittedBytes: 4 << 20,
    seed: 7,
    lost: 0,
    log,
    applied,
    snapshotIndex: 0,
    snapshotTerm: 0,
    hardState: { term, vote: 0, commit },
    configuration: { voters: [1], votersOutgoing: [], learners: [] },
  });
}

/** One turn of the host; returns what was committed. */
function turn(raft: Raft, log: MemoryLog): Entry[] {
  const committed: Entry[] = [];
  for (let left = 10; raft.hasReady() && left > 0; left -= 1) {
    const ready = raft.take();
    log.write(ready.entries);
    if (ready.mustPersist) raft.persisted(ready.persistIndex);
    assert.deepEqual(ready.send, []);
    committed.push(...ready.committed);
  }
  assert.equal(raft.hasReady(), false);
  return committed;
}

test('a single voter leads after one campaign and commits what its disk has', () => {
  const log = new MemoryLog();
  const raft = single(log, 0, 0, 0);
  assert.equal(raft.propose(data), 0, 'no proposal before it leads');
  raft.campaign();
  const opening = turn(raft, log);
  assert.equal(raft.role, 'leader');
  assert.deepEqual(
    opening.map((entry) => [entry.term, entry.index, entry.kind]),
    [[1, 1, ENTRY_EMPTY]],
  );

  assert.equal(raft.propose(data), 2);
  const before = raft.take();
  assert.equal(before.hardState, undefined, 'a new commit alone is no reason to persist');
  assert.deepEqual(before.committed, [], 'nothing is committed before the disk has it');
  log.write(before.entries);
  raft.persisted(before.persistIndex);
  assert.deepEqual(
    raft.take().committed.map((entry) => [entry.index, entry.kind]),
    [[2, ENTRY_DATA]],
  );
});

test('a restart replays from the checkpoint, for any value of the lazy commit marker', () => {
  const log = new MemoryLog();
  const raft = single(log, 0, 0, 0);
  raft.campaign();
  turn(raft, log);
  for (let n = 0; n < 5; n += 1) raft.propose(data);
  turn(raft, log);
  assert.equal(raft.commitIndex, 6);

  const again = single(log, 1, 3, 0);
  assert.equal(again.commitIndex, 6, 'what its disk has is committed: no other node can have led');
  const replayed = turn(again, log);
  assert.deepEqual(
    replayed.map((entry) => entry.index),
    [4, 5, 6],
    'also when it cannot lead, because the disk is full',
  );
  again.campaign();
  assert.deepEqual(
    turn(again, log).map((entry) => entry.index),
    [7],
  );
  assert.equal(again.term, 2);
});

test('proposals are refused over the uncommitted limit, and accepted again after delivery', () => {
  const log = new MemoryLog();
  const raft = single(log, 0, 0, 0);
  raft.campaign();
  turn(raft, log);
  const big = new Uint8Array(3 << 20);
  assert.notEqual(raft.propose(big), 0);
  assert.equal(raft.propose(big), 0);
  turn(raft, log);
  assert.notEqual(raft.propose(big), 0);
});
