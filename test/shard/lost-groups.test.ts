// A leader shows that the log is an older copy, or that one is whole again: peers hear of it once it is on disk, or a
// restart would undo what they make of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QUERIES } from '../../src/protocol/operations.ts';
import type { LostLog } from '../../src/raft/types.ts';
import { CHECKPOINT_MS } from '../../src/shard/checkpoints.ts';
import { TICK_MS } from '../../src/shard/shard.ts';
import { CREATE, Follower, HELLO } from './follower.ts';
import { code, find } from './harness.ts';

const OTHER = 1;
/** Two election timeouts: a node that was restored votes after that. */
const SHY_TICKS = 20;

/** A member whose log ends at 2, all of it committed. */
function started(): Follower {
  const node = new Follower({ groups: [0, OTHER] });
  node.append(1, [0, 0], [CREATE, HELLO], 2);
  node.turn();
  node.sent.length = 0;
  return node;
}

function beat(node: Follower, commit: number, restored = false): void {
  const about = { commit, round: 99, allowedBoot: restored ? node.boots : 0, restored };
  node.shard.onRaft(0, { type: 'heartbeat', from: 2, to: 1, term: 1, ...about });
}

/** Another group of the shard has something to write, so its messages, and all others, leave before that. */
function vote(node: Follower): void {
  const about = { pre: false, force: true, lastIndex: 0, lastTerm: 0 };
  node.shard.onRaft(OTHER, { type: 'vote', from: 2, to: 1, term: 5, ...about });
}

/** The state of the log by the answers that were sent since the last call. */
const told = (node: Follower): LostLog[] =>
  node.sent.splice(0).flatMap((message) => (message.type === 'heartbeat-response' ? [message.lost] : []));

/** The same of a turn, and what the disk has when each leaves. */
function leaving(node: Follower): (readonly [LostLog, LostLog])[] {
  const left: (readonly [LostLog, LostLog])[] = [];
  node.onFlush = () => left.push(...told(node).map((lost) => [lost, node.storage.lost(0)] as const));
  node.turn();
  node.onFlush = () => undefined;
  return left;
}

test('a loss is on disk before a leader hears of it, whatever else the turn has to write', () => {
  const node = started();
  beat(node, 9);
  vote(node);
  assert.deepEqual(leaving(node), [[1, 1]]);
});

test('so is that a leader restored the log', () => {
  const node = started();
  node.storage.lostGroups.add(0);
  node.boot();
  for (let i = 0; i < SHY_TICKS; i++) {
    beat(node, 2);
    node.turn(TICK_MS);
  }
  assert(told(node).every((lost) => lost === 1));
  beat(node, 2, true);
  vote(node);
  assert.deepEqual(leaving(node), [[0, 0]]);
});

for (const [why, stop, goOn] of [
  [
    'finds no space',
    (node: Follower): void => void (node.storage.isCheckpointFull = true),
    (node: Follower): void => void (node.storage.isCheckpointFull = false),
  ],
  [
    'waits for a checkpoint that hangs',
    (node: Follower): void => void (node.storage.checkpointLooks = Infinity),
    (node: Follower): void => void (node.storage.checkpointLooks = 0),
  ],
] as const) {
  test(`a group whose loss ${why} is silent, and its reads wait, while others go on`, () => {
    const node = started();
    stop(node);
    for (let i = 0; i < 3; i++) node.turn(CHECKPOINT_MS);
    beat(node, 9);
    const slot = node.ask(QUERIES.read.number);
    vote(node);
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(node.turn(TICK_MS), []);
      beat(node, 9);
    }
    assert(node.sent.some(({ type }) => type === 'vote-response'));
    assert.deepEqual([told(node), node.storage.lost(0)], [[], 0]);
    goOn(node);
    for (let i = 0; i < 3; i++) node.turn(TICK_MS);
    beat(node, 9);
    assert.deepEqual(leaving(node), [[1, 1]]);
    assert.equal(code(find(node.turn(5000), slot)), 'CATCHING_UP');
  });
}

test('a directory that is not the one of before is declared lost, and stored once the disk has it for all groups', () => {
  const node = started();
  let stored = 0;
  const declare = (): void => node.shard.declareLost(() => stored++);
  node.turn(CHECKPOINT_MS);
  node.storage.isCheckpointFull = true;
  declare();
  for (let i = 0; i < 3; i++) node.turn(TICK_MS);
  assert.deepEqual([stored, node.shard.lost.areStored, node.storage.lostGroups.size], [0, false, 0]);
  // There is space for one row.
  const setLost = node.storage.setLost.bind(node.storage);
  node.storage.setLost = (groups, lost) => {
    node.storage.isCheckpointFull = groups[0] === OTHER;
    setLost(groups, lost);
  };
  node.turn(TICK_MS);
  assert.deepEqual([stored, node.shard.lost.areStored, node.storage.lostGroups.size], [0, false, 1]);
  node.storage.setLost = setLost;
  node.storage.isCheckpointFull = false;
  for (let i = 0; i < 3; i++) node.turn(TICK_MS);
  assert.deepEqual([stored, node.shard.lost.areStored, node.storage.lostGroups.size], [1, true, 2]);
  // Another shard may find the same.
  declare();
  assert.equal(stored, 2);
});

test('a loss is declared, and not stored, while a checkpoint hangs', () => {
  const node = started();
  node.storage.checkpointLooks = Infinity;
  for (let i = 0; i < 3; i++) node.turn(CHECKPOINT_MS);
  let stored = 0;
  node.shard.declareLost(() => stored++);
  assert.deepEqual([stored, node.storage.lostGroups.size], [0, 0]);
  beat(node, 2);
  node.turn(TICK_MS);
  assert.deepEqual(told(node), []);
  node.storage.checkpointLooks = 0;
  for (let i = 0; i < 3; i++) node.turn(TICK_MS);
  assert.deepEqual([stored, node.storage.lostGroups.size], [1, 2]);
});

test('a loss that is the first to find no space is not told either', () => {
  const node = started();
  node.turn(CHECKPOINT_MS);
  node.storage.isCheckpointFull = true;
  beat(node, 9);
  vote(node);
  assert.deepEqual(leaving(node), []);
  node.storage.isCheckpointFull = false;
  beat(node, 9);
  assert.deepEqual(leaving(node), [[1, 1]]);
});
