// Writes that were sent to a leader: how they are answered when that node no longer leads.
import { PROTOCOL_VERSION } from '../../src/peer/codec/handshake.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, errorCode, errorNumber } from '../../src/base/errors.ts';
import type { Group } from '../../src/group/group.ts';
import { Forwarding } from '../../src/shard/forwarding.ts';
import type { PeerPort } from '../../src/shard/ports.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { newRequest, requestBytesMax, writeRequest } from '../../src/protocol/request.ts';
import { stopped } from './follower.ts';

const SLOT = 7;

interface Scene {
  readonly forwarding: Forwarding;
  /** The group's belief. */
  readonly raft: { leader: number };
  /** Codes of the answers to the client. */
  readonly told: string[];
  /** The answer of the node that the write was sent to. */
  answer(code?: ErrorCode): void;
  turn(afterMs: number): void;
}

function scene(bytes = 64): Scene {
  const raft = { leader: 2 };
  const group = { id: 0, accepts: false, raft, state: { appliedIndex: 1 } } as unknown as Group;
  const told: string[] = [];
  const replies: ((answer: Uint8Array | undefined) => void)[] = [];
  const peers = {
    connected: () => true,
    version: () => PROTOCOL_VERSION,
    forward: (_node: number, _group: number, _frame: Uint8Array, onReply: (typeof replies)[number]) => {
      replies.push(onReply);
      return true;
    },
  } as unknown as PeerPort;
  const deliver = (reply: Reply): void => void told.push(errorCode(reply.code) ?? 'OK');
  const forwarding = new Forwarding(peers, 1, { deliver, wake: () => undefined, propose: () => false });
  let clockMs = 1000;
  const turn = (afterMs: number): void => {
    clockMs += afterMs;
    forwarding.turn(clockMs, clockMs);
  };
  turn(0);
  forwarding.submit(group, SLOT, new Uint8Array(bytes), undefined, clockMs);
  assert.equal(replies.length, 1, 'sent at once');
  const answer = (code?: ErrorCode): void => {
    const reply = new Reply();
    reply.reset(SLOT);
    if (code !== undefined) reply.code = errorNumber(code);
    const bytes = new Uint8Array(8 + reply.bytesMax());
    const view = new DataView(bytes.buffer);
    view.setFloat64(0, 1, true);
    reply.write(bytes, view, 8);
    replies.at(-1)?.(bytes);
  };
  return { forwarding, raft, told, answer, turn };
}

test("a write waits for a leader's answer while no other node leads", () => {
  const { raft, told, answer, turn } = scene();
  for (let i = 0; i < 40; i++) turn(100);
  raft.leader = 0;
  for (let i = 0; i < 40; i++) turn(100);
  assert.deepEqual(told, []);
  answer();
  turn(1);
  assert.deepEqual(told, ['OK']);
});

test('a leader that handed over may still answer; one that says nothing is given up', () => {
  const handedOver = scene();
  handedOver.turn(100);
  handedOver.raft.leader = 3;
  handedOver.turn(100);
  handedOver.turn(500);
  handedOver.answer();
  handedOver.turn(100);
  assert.deepEqual(handedOver.told, ['OK']);

  const cutOff = scene();
  cutOff.turn(100);
  cutOff.raft.leader = 3;
  for (let i = 0; i < 9; i++) cutOff.turn(100);
  assert.deepEqual(cutOff.told, []);
  for (let i = 0; i < 4; i++) cutOff.turn(100);
  assert.deepEqual(cutOff.told, ['OUTCOME_UNKNOWN']);
  cutOff.answer();
  for (let i = 0; i < 30; i++) cutOff.turn(100);
  assert.deepEqual(cutOff.told, ['OUTCOME_UNKNOWN'], 'told once');
});

test('a large body is still in flight to a former leader when a small one would have been answered', () => {
  const { raft, told, turn } = scene(31 * 1024 * 1024);
  turn(100);
  raft.leader = 3;
  for (let i = 0; i < 45; i++) turn(100);
  assert.deepEqual(told, []);
  for (let i = 0; i < 10; i++) turn(100);
  assert.deepEqual(told, ['OUTCOME_UNKNOWN']);
});

/** A leader that is there; the link to it takes one write at a time. */
function narrow(): {
  readonly forwarding: Forwarding;
  readonly told: string[];
  readonly waiting: ((answer: Uint8Array | undefined) => void)[];
  readonly raft: { leader: number };
  turn(afterMs: number): void;
} {
  const raft = { leader: 2 };
  const group = { id: 0, accepts: false, raft, state: { appliedIndex: 1 } } as unknown as Group;
  const told: string[] = [];
  const waiting: ((answer: Uint8Array | undefined) => void)[] = [];
  const peers = {
    connected: () => true,
    version: () => PROTOCOL_VERSION,
    forward: (_node: number, _group: number, _frame: Uint8Array, onReply: (typeof waiting)[number]) =>
      waiting.length === 0 && waiting.push(onReply) > 0,
  } as unknown as PeerPort;
  const deliver = (reply: Reply): void => void told.push(`${reply.id} ${errorCode(reply.code)}`);
  const forwarding = new Forwarding(peers, 1, { deliver, wake: () => undefined, propose: () => false });
  let clockMs = 1000;
  const turn = (afterMs: number): void => {
    clockMs += afterMs;
    forwarding.turn(clockMs, clockMs);
  };
  turn(0);
  for (const slot of [1, 2]) forwarding.submit(group, slot, new Uint8Array(31 * 1024 * 1024), undefined, clockMs);
  forwarding.submit(group, 3, new Uint8Array(31 * 1024 * 1024), undefined, clockMs);
  return { forwarding, told, waiting, raft, turn };
}

test('what finds no room on the way to a leader that is there waits for longer than without one', () => {
  const { told, waiting, turn } = narrow();
  assert.deepEqual(told, ['3 LEADER_BUSY'], 'more than may wait');
  for (let i = 0; i < 60; i++) turn(100);
  assert.deepEqual(told, ['3 LEADER_BUSY'], 'six seconds');
  waiting.pop()?.(undefined);
  turn(100);
  assert.equal(waiting.length, 1, 'the second is on its way');
  assert.deepEqual(told, ['3 LEADER_BUSY', '1 OUTCOME_UNKNOWN']);
});

test('it does not wait forever, and not as long when the leader is gone', () => {
  const busy = narrow();
  for (let i = 0; i < 299; i++) busy.turn(100);
  assert.deepEqual(busy.told, ['3 LEADER_BUSY']);
  for (let i = 0; i < 3; i++) busy.turn(100);
  assert.deepEqual(busy.told, ['3 LEADER_BUSY', '2 LEADER_BUSY']);
  const gone = narrow();
  gone.raft.leader = 0;
  for (let i = 0; i < 52; i++) gone.turn(100);
  assert.deepEqual(gone.told, ['3 LEADER_BUSY', '2 NO_LEADER']);
});

test('the wait for a leader begins when no node leads any more, not when the write came', () => {
  const behind = narrow();
  for (let i = 0; i < 80; i++) behind.turn(100);
  behind.raft.leader = 0;
  for (let i = 0; i < 45; i++) behind.turn(100);
  assert.deepEqual(behind.told, ['3 LEADER_BUSY'], 'an election takes a moment');
  for (let i = 0; i < 10; i++) behind.turn(100);
  assert.deepEqual(behind.told, ['3 LEADER_BUSY', '2 NO_LEADER']);
});

test('a write that was long in flight when its leader stepped down goes to the next one', () => {
  const { raft, told, answer, turn } = scene();
  for (let i = 0; i < 80; i++) turn(100);
  answer('NO_LEADER');
  turn(10);
  assert.deepEqual(told, []);
  raft.leader = 3;
  turn(100);
  answer();
  turn(10);
  assert.deepEqual(told, ['OK']);
});

/** A follower, the slots of what it sends to which node, and of what it proposes itself, in their order. */
function follower(): {
  holds(): boolean;
  readonly state: { leader: number; accepts: boolean };
  readonly done: string[];
  readonly told: string[];
  submit(slot: number, bytes?: number): void;
  /** The answer to the first that has none; nothing: the node does not lead. */
  answer(isDone?: 'done'): void;
  turn(afterMs: number): void;
} {
  const state = { leader: 2, accepts: false };
  const done: string[] = [];
  const told: string[] = [];
  const replies: { slot: number; onReply: (answer: Uint8Array | undefined) => void }[] = [];
  const group = {
    ...{ id: 0, raft: state, state: { appliedIndex: 1 } },
    get accepts(): boolean {
      return state.accepts;
    },
  } as unknown as Group;
  const peers = {
    connected: () => true,
    version: () => PROTOCOL_VERSION,
    forward: (node: number, _group: number, frame: Uint8Array, onReply: (answer: Uint8Array | undefined) => void) => {
      done.push(`${frame[0]} to ${node}`);
      replies.push({ slot: frame[0] ?? 0, onReply });
      return true;
    },
  } as unknown as PeerPort;
  const forwarding = new Forwarding(peers, 1, {
    deliver: (reply) => told.push(`${reply.id} ${errorCode(reply.code) ?? 'OK'}`),
    wake: () => undefined,
    propose: (_group, slot) => done.push(`${slot} here`) > 0,
  });
  let clockMs = 1000;
  const turn = (afterMs: number): void => {
    clockMs += afterMs;
    forwarding.turn(clockMs, clockMs);
  };
  turn(0);
  const submit = (slot: number, bytes = 64): void =>
    forwarding.submit(group, slot, new Uint8Array(bytes).fill(slot), undefined, clockMs);
  const answer = (isDone?: 'done'): void => {
    const { slot, onReply } = replies.shift() ?? assert.fail('nothing is in flight');
    const reply = new Reply();
    reply.reset(slot);
    if (isDone === undefined) reply.code = errorNumber('NO_LEADER');
    const bytes = new Uint8Array(8 + reply.bytesMax());
    const view = new DataView(bytes.buffer);
    view.setFloat64(0, 1, true);
    reply.write(bytes, view, 8);
    onReply(bytes);
  };
  return { holds: () => forwarding.holds(group), state, done, told, submit, answer, turn };
}

test('a write does not overtake those that its former leader sends back', () => {
  const { state, done, told, submit, answer, turn } = follower();
  submit(1);
  submit(2);
  state.leader = 3;
  submit(3);
  answer();
  turn(10);
  submit(4);
  assert.deepEqual(done.splice(0), ['1 to 2', '2 to 2'], 'the second may come back too');
  answer();
  submit(5);
  turn(10);
  assert.deepEqual(done.splice(0), ['1 to 3', '2 to 3', '3 to 3', '4 to 3', '5 to 3']);
  submit(6);
  assert.deepEqual(done, ['6 to 3'], 'at once');
  for (let i = 0; i < 6; i++) answer('done');
  turn(1);
  assert.deepEqual(
    told,
    [1, 2, 3, 4, 5, 6].map((slot) => `${slot} OK`),
  );
});

test('nor does it when its own node has been elected', () => {
  const { holds, state, done, submit, answer, turn } = follower();
  submit(1);
  submit(2);
  answer();
  state.leader = 1;
  state.accepts = true;
  // The shard asks before it proposes one that it has just read.
  assert.equal(holds(), true);
  submit(3);
  turn(10);
  answer();
  turn(10);
  assert.equal(holds(), false);
  assert.deepEqual(done, ['1 to 2', '2 to 2', '1 here', '2 here', '3 here']);
});

test('a former leader that says nothing holds up later writes for a second, and large ones not at all', () => {
  const { state, done, told, submit, turn } = follower();
  submit(1);
  state.leader = 3;
  submit(2);
  submit(3, 100_000);
  for (let i = 0; i < 14; i++) turn(100);
  assert.deepEqual(done, ['1 to 2', '3 to 3', '2 to 3']);
  assert.deepEqual(told, ['1 OUTCOME_UNKNOWN']);
});

test('one that comes to a node whose group has stopped is sent on, unless that node leads', () => {
  const node = stopped();
  const request = newRequest();
  const kind = COMMANDS.append.number;
  const fields = { kind, bucket: 'b', stream: 'another', contentType: 'text/plain', payload: new Uint8Array(4) };
  Object.assign(request, { op: kind, command: { ...request.command, ...fields } });
  const bytes = new Uint8Array(requestBytesMax(request));
  const frame = bytes.subarray(0, writeRequest(request, 1, 0, bytes, new DataView(bytes.buffer), 0));
  const told = (): string => {
    node.shard.onForward({ node: 3, shard: 0, boot: 1, correlation: 1 }, 0, frame, 1_700_000_000_000);
    const answer = node.replies.at(-1) ?? assert.fail('it answers');
    const reply = new Reply();
    reply.read(answer, new DataView(answer.buffer, answer.byteOffset), 8);
    return errorCode(reply.code);
  };
  assert.equal(told(), 'NO_LEADER');
  node.lead();
  assert.equal(told(), 'ROW_DAMAGED', 'it leads, because no other node could');
});
