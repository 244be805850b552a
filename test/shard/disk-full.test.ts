import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHECKPOINT_MS } from '../../src/shard/checkpoints.ts';
import { encodeImportRows, encodeImportToken } from '../../src/protocol/import-command.ts';
import { newRequest } from '../../src/protocol/request.ts';
import { Harness, code, find, text } from './harness.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

function prepared(): Harness {
  const harness = new Harness([0, 1]);
  harness.create(0, 's');
  harness.create(1, 's');
  harness.turn();
  // Nothing left to checkpoint: the first commit that fails is the append's.
  harness.turn(CHECKPOINT_MS);
  return harness;
}

test('a write that meets the full disk waits, later ones are refused, and space lets it through', () => {
  const harness = prepared();
  harness.storage.isFull = true;
  const stuck = harness.append(0, 's', 'first;');
  assert.deepEqual(harness.turn(), [], 'no answer: it is neither durable nor lost');
  assert(harness.shard.full);
  const refused = harness.append(1, 's', 'second;');
  const reading = harness.read(0, 's');
  const replies = harness.turn();
  assert.equal(code(find(replies, refused)), 'DISK_FULL');
  assert.equal(text(find(replies, reading)), '', 'reads go on and show nothing that is not durable');
  for (let i = 0; i < 10; i++) assert.deepEqual(harness.turn(100), []);
  assert(harness.storage.refusedCommits >= 5, 'the commit is tried again and again');
  harness.storage.isFull = false;
  const answers = harness.turn(100);
  assert.equal(code(find(answers, stuck)), 'OK');
  assert(!harness.shard.full);
  const accepted = harness.append(1, 's', 'third;');
  assert.equal(code(find(harness.turn(), accepted)), 'OK');
  assert.equal(harness.contents(0, 's'), 'first;');
  assert.equal(harness.contents(1, 's'), 'third;');
  harness.turn(200);
  assert.match(harness.logLines.join('\n'), /info disk has room again/, 'told at the next tick');
  harness.restart();
  assert.equal(harness.contents(0, 's'), 'first;');
  assert.equal(harness.contents(1, 's'), 'third;');
  assert.match(harness.logLines.join('\n'), /error disk full.*\ninfo disk has room again/);
});

test('a write waiting for a full disk is answered after five seconds, and may still happen', () => {
  const harness = prepared();
  harness.storage.isFull = true;
  const stuck = harness.append(0, 's', 'first;');
  const replies = harness.turn();
  let waitedMs = 0;
  while (!replies.some((reply) => reply.id === stuck) && waitedMs < 20_000) {
    replies.push(...harness.turn(100));
    waitedMs += 100;
  }
  assert.equal(code(find(replies, stuck)), 'OUTCOME_UNKNOWN');
  assert(waitedMs >= 5000 && waitedMs <= 5300, `told after ${waitedMs} ms`);
  harness.storage.isFull = false;
  harness.turn(100);
  assert.equal(harness.contents(0, 's'), 'first;', 'the entry was in the log all the time');
});

test('a checkpoint that finds the disk full loses nothing and is made up for', () => {
  const harness = prepared();
  harness.append(0, 's', 'first;');
  harness.turn(0);
  harness.storage.isFull = true;
  harness.turn(CHECKPOINT_MS);
  assert(harness.shard.full);
  harness.storage.isFull = false;
  harness.turn(200);
  assert(!harness.shard.full);
  assert(!harness.shard.groups.some((group) => group.state.dirty));
  harness.restart();
  assert.equal(harness.contents(0, 's'), 'first;');
});

test('the log has its room beforehand: what it takes is acknowledged while checkpoints find none', () => {
  const harness = prepared();
  harness.storage.isCheckpointFull = true;
  const first = harness.append(0, 's', 'first;');
  assert.equal(code(find(harness.turn(), first)), 'OK');
  harness.turn(CHECKPOINT_MS);
  assert(harness.shard.full);
  const second = harness.append(0, 's', 'second;');
  assert.equal(code(find(harness.turn(), second)), 'DISK_FULL');
  harness.restart();
  assert.equal(harness.contents(0, 's'), 'first;', 'the checkpoint is not there, the log is');
});

test('a log without room keeps what came, and checkpoints do not end that', () => {
  const harness = prepared();
  harness.append(0, 's', 'first;');
  harness.turn();
  harness.storage.isAppendFull = true;
  const stuck = harness.append(0, 's', 'second;');
  assert.deepEqual(harness.turn(), []);
  for (let i = 0; i < 20; i++) assert.deepEqual(harness.turn(100), []);
  assert(!harness.shard.groups.some((group) => group.state.dirty), 'the state was written');
  assert(harness.shard.full);
  harness.storage.isAppendFull = false;
  assert.equal(code(find(harness.turn(100), stuck)), 'OK');
  harness.restart();
  assert.equal(harness.contents(0, 's'), 'first;second;');
});

test('a crash on a full disk loses what was never acknowledged, and only that', () => {
  const harness = prepared();
  harness.append(0, 's', 'first;');
  harness.turn(0);
  harness.storage.isFull = true;
  harness.append(0, 's', 'second;');
  assert.deepEqual(harness.turn(), []);
  harness.storage.isFull = false;
  harness.restart();
  assert.equal(harness.contents(0, 's'), 'first;');
});

test('writes are refused while the volume is down to its reserve; reads are not', () => {
  const harness = prepared();
  harness.storage.spaceLeft = false;
  const write = harness.append(0, 's', 'x');
  const read = harness.read(0, 's');
  const replies = harness.turn();
  assert.equal(code(find(replies, write)), 'DISK_FULL');
  assert.equal(code(find(replies, read)), 'OK');
  harness.storage.spaceLeft = true;
  const again = harness.append(0, 's', 'x');
  assert.equal(code(find(harness.turn(), again)), 'OK');
});

test('an import that finds no room is undone, and the group serves again', () => {
  const harness = new Harness([0, 1]);
  const propose = (kind: number, payload: Uint8Array): string => {
    const request = newRequest();
    Object.assign(request, { op: kind, group: 0 });
    Object.assign(request.command, { kind, payload });
    const slot = harness.push(request);
    return code(find(harness.turn(), slot));
  };
  const token = '0123456789abcdef';
  assert.equal(propose(COMMANDS.importBegin.number, encodeImportToken(token)), 'OK');
  harness.storage.spaceLeft = false;
  const rows = encodeImportRows({ token, seq: 0, rows: new Uint8Array(0) });
  assert.equal(propose(COMMANDS.importRows.number, rows), 'DISK_FULL');
  assert.equal(propose(COMMANDS.importAbort.number, encodeImportToken(token)), 'OK');
  assert.equal(propose(COMMANDS.importBegin.number, encodeImportToken('fedcba9876543210')), 'DISK_FULL');
  harness.storage.spaceLeft = true;
  const created = harness.create(0, 's');
  assert.equal(code(find(harness.turn(), created)), 'OK');
});

test('the state of the disk is part of the status', () => {
  const harness = prepared();
  harness.storage.isFull = true;
  harness.append(0, 's', 'x');
  harness.turn();
  const isFull = (): boolean => harness.status(100)['disk_full'] === true;
  assert(isFull());
  harness.storage.isFull = false;
  harness.storage.spaceLeft = false;
  for (let i = 0; i < 20 && harness.shard.full; i++) harness.turn(100);
  assert(!harness.shard.full && isFull(), 'down to the reserve writes are refused too');
  harness.storage.spaceLeft = true;
  assert(!isFull());
});

test('a stop on a full disk answers everyone', () => {
  const harness = prepared();
  harness.storage.isFull = true;
  const stuck = harness.append(0, 's', 'x');
  harness.turn();
  harness.shard.stop(harness.nowMs + 1, harness.clockMs + 1);
  assert.equal(code(find(harness.target.take(), stuck)), 'OUTCOME_UNKNOWN');
});
