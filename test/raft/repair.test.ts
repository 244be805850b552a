// A node whose disk changed its applied state gets another one, and keeps its log (src/raft/repair.ts).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeConfiguration } from '../../src/raft/configuration.ts';
import { ENTRY_CONFIG, ENTRY_DATA } from '../../src/raft/types.ts';
import type { Configuration, Entry, HeartbeatResponse, Message } from '../../src/raft/types.ts';
import { SMALL_OPTIONS, TestNode, type Payloads, emptyDisk } from './support/node.ts';

const CONFIGURATION = { voters: [1, 2, 3], votersOutgoing: [], learners: [] };
const TERM = 3;
const FROM_LEADER = { from: 1, to: 2, term: TERM, allowedBoot: 0, restored: false } as const;

const entry = (index: number): Entry => ({ term: TERM, index, kind: ENTRY_DATA, data: Uint8Array.of(index) });

/** It has applied six entries, and two of them are in its checkpoint. */
function damaged(payloads: Payloads = new Map()): TestNode {
  const disk = emptyDisk(CONFIGURATION);
  disk.log.write([1, 2, 3, 4, 5, 6].map(entry));
  disk.hardState = { term: TERM, vote: 0, commit: 2 };
  disk.applied = [entry(1), entry(2)];
  const node = new TestNode(2, disk, SMALL_OPTIONS, 1, payloads);
  node.raft.step({ type: 'heartbeat', ...FROM_LEADER, commit: 6, round: 1 });
  node.turn();
  assert.equal(node.applied.length, 6);
  node.stop();
  return node;
}

function wishOf(node: TestNode, round: number): boolean {
  node.raft.step({ type: 'heartbeat', ...FROM_LEADER, commit: 6, round });
  const [answer] = node.turn();
  assert(answer?.type === 'heartbeat-response');
  return answer.wantsState;
}

function install(node: TestNode, index: number): void {
  const snapshot = { index, term: TERM, configuration: CONFIGURATION };
  node.raft.step({ type: 'snapshot', ...FROM_LEADER, snapshot, round: 9 });
}

test('the state of a leader takes the place of the damaged one, and what follows it is applied again', () => {
  const payloads: Payloads = new Map([[4, [1, 2, 3, 4].map(entry)]]);
  const node = damaged(payloads);
  assert(wishOf(node, 2));
  install(node, 4);
  node.begin();
  assert.equal(node.applied.length, 2, 'nothing is applied to a state that is about to go');
  assert.equal(node.raft.hasReady(), false);
  node.finish();
  assert.deepEqual([node.applied.length, node.raft.appliedIndex, node.raft.commitIndex], [4, 4, 6]);
  node.turn();
  assert.deepEqual(node.applied, [1, 2, 3, 4, 5, 6].map(entry));
  assert.deepEqual([node.disk.log.firstIndex(), node.disk.log.lastIndex()], [1, 6], 'the log is as it was');
  assert.equal(wishOf(node, 10), false);
});

test('a state that ends in front of the log is not used, and asked for again', () => {
  const node = damaged();
  node.compact(2);
  install(node, 1);
  node.turn();
  assert.equal(node.applied.length, 2);
  assert(wishOf(node, 10));
});

test('a state that is ahead of the log takes its place, as for any node that is far behind', () => {
  const node = damaged(new Map([[9, [1, 2, 3, 4, 5, 6, 7, 8, 9].map(entry)]]));
  install(node, 9);
  node.turn();
  assert.deepEqual([node.applied.length, node.disk.log.firstIndex()], [9, 10]);
  assert.equal(wishOf(node, 10), false);
});

test('configurations that were applied before are in force again behind the state that was installed', () => {
  const joint = { voters: [1, 2, 4], votersOutgoing: [1, 2, 3], learners: [] };
  const after = { voters: [1, 2, 4], votersOutgoing: [], learners: [] };
  const configured = (index: number, configuration: Configuration): Entry => {
    return { ...entry(index), kind: ENTRY_CONFIG, data: encodeConfiguration(configuration) };
  };
  const disk = emptyDisk(CONFIGURATION);
  const entries = [entry(1), entry(2), configured(3, joint), entry(4), configured(5, after), entry(6)];
  disk.log.write(entries);
  disk.hardState = { term: TERM, vote: 0, commit: 6 };
  disk.applied = [entry(1)];
  const node = new TestNode(2, disk, SMALL_OPTIONS, 1, new Map([[2, [entry(1), entry(2)]]]));
  node.raft.step({ type: 'heartbeat', ...FROM_LEADER, commit: 6, round: 1 });
  node.turn();
  node.stop();
  assert.deepEqual(
    [2, 4, 6].map((index) => node.raft.configurationAt(index)),
    [after, after, after],
  );
  install(node, 2);
  node.begin();
  node.finish();
  assert.deepEqual(
    [2, 3, 4, 5].map((index) => node.raft.configurationAt(index)),
    [CONFIGURATION, joint, joint, after],
  );
  node.turn();
  assert.deepEqual(node.raft.configuration, after);
});

function leader(): TestNode {
  const node = new TestNode(1, emptyDisk(CONFIGURATION), SMALL_OPTIONS, 1, new Map());
  node.raft.campaign();
  for (const [pre, term] of [
    [true, 1],
    [false, 1],
  ] as const) {
    node.turn();
    node.raft.step({ type: 'vote-response', from: 2, to: 1, term, pre, granted: true });
  }
  assert.equal(node.raft.role, 'leader');
  return node;
}

const appendsTo = (messages: readonly Message[]): number[] =>
  messages
    .flatMap((message) => (message.type === 'append' && message.to === 2 ? message.entries : []))
    .map((e) => e.index);
const snapshotsIn = (messages: readonly Message[]): number =>
  messages.filter(({ type, to }) => type === 'snapshot' && to === 2).length;

test('a leader sends its state once to a node that asks, entries go on, and an answer from before asks for nothing', () => {
  const node = leader();
  let round = 0;
  const see = (messages: readonly Message[]): readonly Message[] => {
    for (const message of messages) if ('round' in message && message.to === 2) round = Math.max(round, message.round);
    return messages;
  };
  const answer = (fields: Partial<HeartbeatResponse>): void => {
    const note = { round, boot: 9, lost: 0, refusesLead: true, wantsState: true } as const;
    const acknowledged = { reject: false, index: node.raft.lastIndex, hintIndex: 0, hintTerm: 0 } as const;
    node.raft.step({ from: 2, to: 1, term: 1, ...note, ...fields, type: 'append-response', ...acknowledged });
  };
  // The first answer only tells how far its log goes.
  for (let i = 0; i < 2; i++) {
    see(node.turn());
    answer({});
  }
  let sent = see(node.turn());
  assert.equal(snapshotsIn(sent), 1);
  const index = node.raft.propose(Uint8Array.of(1));
  sent = see(node.turn());
  assert.deepEqual(appendsTo(sent), [index]);
  const before = round;
  answer({});
  assert.equal(snapshotsIn(see(node.turn())), 0, 'one at a time');
  assert.equal(node.raft.commitIndex, index, 'its acknowledgement counts');
  assert.equal(node.raft.peers()[0]?.wantsState, true);

  node.raft.snapshotInstalled(2, index);
  answer({ round: before });
  assert.equal(snapshotsIn(see(node.turn())), 0, 'that was said before it was installed');
  node.raft.propose(Uint8Array.of(2));
  see(node.turn());
  answer({});
  assert.equal(snapshotsIn(see(node.turn())), 1);
});
