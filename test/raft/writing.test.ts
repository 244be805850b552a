// A node that writes many bytes is silent meanwhile: neither a leader nor a follower is replaced for that, but both are
// eventually.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../../src/raft/types.ts';
import { TestNode, type NodeOptions, emptyDisk } from './support/node.ts';

const MIB = 1024 * 1024;
const OPTIONS: NodeOptions = {
  electionTicks: 10,
  heartbeatTicks: 2,
  maxMessageBytes: MIB,
  maxInflightBytes: 16 * MIB,
};
const LARGE = new Uint8Array(31 * MIB);
const SMALL = new Uint8Array(100);
/** 31 MiB at 1 MiB a tick. */
const WRITING_TICKS = 31;

function nodes(): [TestNode, TestNode] {
  const configuration = { voters: [1, 2], votersOutgoing: [], learners: [] };
  const payloads = new Map();
  const node = (id: number): TestNode => new TestNode(id, emptyDisk(configuration), OPTIONS, id, payloads);
  return [node(1), node(2)];
}

function exchange(pair: readonly [TestNode, TestNode]): void {
  for (let rounds = 0; rounds < 20; rounds++) {
    const messages: Message[] = pair.flatMap((node) => node.turn());
    for (const message of messages) pair[message.to - 1]?.raft.step(message);
  }
}

function led(): [TestNode, TestNode] {
  const pair = nodes();
  pair[0].raft.campaign();
  exchange(pair);
  assert.equal(pair[0].raft.role, 'leader');
  // Two checks of the quorum, which both pass.
  for (let tick = 0; tick < 25; tick++) {
    for (const { raft } of pair) raft.tick();
    exchange(pair);
  }
  return pair;
}

/** Ticks until the role of `node` changes. */
function ticksUntilChange(node: TestNode): number {
  const { role } = node.raft;
  for (let ticks = 1; ticks < 100; ticks++) {
    node.raft.tick();
    node.turn();
    if (node.raft.role !== role) return ticks;
  }
  return Infinity;
}

for (const [name, data, more] of [
  ['a few bytes', SMALL, 0],
  ['31 MiB', LARGE, WRITING_TICKS],
] as const) {
  test(`a leader that sent ${name} waits for an answer`, () => {
    const [leader] = led();
    leader.raft.propose(data);
    leader.turn();
    const ticks = ticksUntilChange(leader);
    // The first check may still count an answer from before.
    assert(ticks > more && ticks <= 2 * (OPTIONS.electionTicks + more), `${ticks} ticks`);
  });

  test(`a follower that got ${name} waits for its leader`, () => {
    const [leader, follower] = led();
    leader.raft.propose(data);
    for (const message of leader.turn()) follower.raft.step(message);
    follower.turn();
    const ticks = ticksUntilChange(follower);
    const { electionTicks } = OPTIONS;
    assert(ticks >= electionTicks + more && ticks <= 2 * electionTicks + more, `${ticks} ticks`);
  });
}

test('the next message of a leader ends the patience', () => {
  const [leader, follower] = led();
  leader.raft.propose(LARGE);
  for (const message of leader.turn()) follower.raft.step(message);
  follower.turn();
  for (let tick = 0; tick < OPTIONS.heartbeatTicks; tick++) leader.raft.tick();
  for (const message of leader.turn()) if (message.type === 'heartbeat') follower.raft.step(message);
  assert(ticksUntilChange(follower) <= 2 * OPTIONS.electionTicks);
});

test('a new leader that first has to send a large entry of an earlier term stays while its follower answers', () => {
  const pair = led();
  const [before] = pair;
  // On the disk of the leader only, behind small ones whose commit the next leader has to find out.
  assert(before.raft.propose(LARGE) > 0);
  before.turn();
  const configuration = { voters: [1, 2], votersOutgoing: [], learners: [] };
  const again = new TestNode(1, before.disk, OPTIONS, 1, new Map());
  const follower = new TestNode(2, { ...pair[1].disk, configuration }, OPTIONS, 2, new Map());
  again.raft.campaign();
  for (let tick = 0; tick < 200; tick++) {
    again.raft.tick();
    follower.raft.tick();
    for (let rounds = 0; rounds < 6; rounds++) {
      // The large entry is under way all the time.
      const small = (message: Message): boolean =>
        message.type !== 'append' || message.entries.every(({ data }) => data.length < MIB);
      for (const message of again.turn().filter(small)) follower.raft.step(message);
      for (const message of follower.turn()) again.raft.step(message);
    }
    if (tick > 5) assert.equal(again.raft.role, 'leader', `after ${tick} ticks`);
  }
});

test('so does one whose follower is silent because it writes that entry', () => {
  const pair = led();
  const [before] = pair;
  assert(before.raft.propose(LARGE) > 0);
  before.turn();
  const configuration = { voters: [1, 2], votersOutgoing: [], learners: [] };
  const again = new TestNode(1, before.disk, OPTIONS, 1, new Map());
  const follower = new TestNode(2, { ...pair[1].disk, configuration }, OPTIONS, 2, new Map());
  again.raft.campaign();
  let isUnderWay = false;
  // Messages after it are sent after it, except urgent ones.
  const comes = (message: Message): boolean => {
    isUnderWay ||= message.type === 'append' && message.entries.some(({ data }) => data.length > MIB);
    return !isUnderWay || message.type !== 'append';
  };
  for (let tick = 0; tick < OPTIONS.electionTicks + 2; tick++) {
    again.raft.tick();
    for (let rounds = 0; rounds < 6; rounds++) {
      for (const message of again.turn()) if (comes(message)) follower.raft.step(message);
      for (const message of follower.turn()) again.raft.step(message);
    }
  }
  assert(isUnderWay && again.raft.role === 'leader');
  assert(ticksUntilChange(again) > 2 * OPTIONS.electionTicks, 'not after the next check of the quorum');
});
