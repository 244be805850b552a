// A state that takes the place of a group's while things are under way: a checkpoint of the one before, and reads that
// wait for a leader's word.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { Commits } from '../../src/shard/commits.ts';
import { type Ending, WaitingReads } from '../../src/shard/waiting-reads.ts';
import { State } from '../../src/stream/core/state.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';
import { Harness } from './harness.ts';

const GROUP = 0;

interface Begun {
  readonly harness: Harness;
  readonly commits: Commits;
  /** Applied indexes that checkpoints were said to cover. */
  readonly covered: number[];
}

/** A checkpoint of the group has begun, and takes as many looks as `looks` says. */
function begun(looks: number): Begun {
  const harness = new Harness([GROUP]);
  for (let i = 0; i < 5; i++) {
    harness.create(GROUP, `stream-${i}`);
    harness.turn();
  }
  const { storage, shard } = harness;
  storage.checkpointLooks = looks;
  const covered: number[] = [];
  const commits = new Commits({
    ...{ shard: 0, groups: shard.groups, storage, runtime: PROCESS_RUNTIME, log: () => undefined },
    checkpointed: (_group, index) => covered.push(index),
  });
  commits.checkpoints.observe(harness.clockMs);
  commits.checkpointBehind('changed', harness.clockMs);
  return { harness, commits, covered };
}

/** An older state, of which nothing is on disk by this checkpoint. */
function replace({ harness: { shard }, commits }: Begun): void {
  const [group] = shard.groups;
  assert(group !== undefined);
  const older = new State(GROUP, new SortedMapTx());
  older.enter(2, 1);
  group.installState(older);
  commits.replaced(group);
  assert.equal(commits.lastCheckpoint(group), 2);
}

function finish({ commits, harness: { clockMs } }: Begun): void {
  for (let i = 1; i < 10; i++) commits.checkpointBehind('due', clockMs + 1000 * i);
}

test('a checkpoint that ends when nothing replaced the state covers it', () => {
  const one = begun(2);
  assert.deepEqual(one.covered, []);
  finish(one);
  assert(one.covered.length > 0 && one.covered.every((index) => index > 5), one.covered.join(' '));
});

test('a checkpoint under way covers nothing of a state that took the place of its own', () => {
  const one = begun(2);
  replace(one);
  finish(one);
  assert.deepEqual(
    one.covered.filter((index) => index > 2),
    [],
  );
});

test('nor does one that found no room and is written again', () => {
  const one = begun(0);
  one.harness.storage.isFull = true;
  one.harness.append(GROUP, 'stream-0', 'more;');
  const group = one.harness.shard.groups[0] ?? assert.fail('there is one');
  group.state.enter(9, 1);
  one.commits.checkpoints.observe(one.harness.clockMs);
  one.commits.checkpointBehind('changed', one.harness.clockMs + 2000);
  one.covered.length = 0;
  replace(one);
  one.harness.storage.isFull = false;
  finish(one);
  assert.deepEqual(
    one.covered.filter((index) => index > 2),
    [],
  );
});

test('a confirmed read waits until a state behind a repair has what was shown', () => {
  const { harness } = begun(0);
  const group = harness.shard.groups[0] ?? assert.fail('there is one');
  const endings: Ending[] = [];
  let isBehind = true;
  const reads = new WaitingReads(
    1,
    () => isBehind,
    (_read, ending) => endings.push(ending),
  );
  assert(reads.untilConfirmed({ group, slot: 1, frame: new Uint8Array(8), isSoon: false }, [group], 0));
  reads.ask(0);
  reads.confirmed(group, [{ context: 2 ** 32, index: group.state.appliedIndex }]);
  reads.turn(1);
  assert.deepEqual(endings, []);
  isBehind = false;
  reads.turn(2);
  assert.deepEqual(endings, ['answer-confirmed']);
});
