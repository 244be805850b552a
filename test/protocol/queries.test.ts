// Queries: what is asked and answered comes through the mailbox as it was given.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callShard } from '../../src/gateway/shard-client.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import { Reply, explain } from '../../src/protocol/reply.ts';
import { ALL_GROUPS, Query, requestBytesMax, requestFor, writeRequest } from '../../src/protocol/request.ts';
import { HELD_TO_BOUND, READ_RECORD } from '../../src/protocol/read-fields.ts';
import { holdRead } from '../../src/protocol/queries/read.ts';
import type { StatusResult } from '../../src/protocol/queries/summaries.ts';
import { queryOf } from '../support/asked-query.ts';
import { ScriptedGateway } from '../support/scripted-gateway.ts';

const NAMED = { bucket: 'Ünï', stream: 's/1' };

test('a message comes out of shared memory as it was asked, with exact numbers and with the key of its stream', () => {
  const asked = { ...NAMED, choice: 'at', offset: 2 ** 53 - 1, from: 2 ** 32, maxBytes: -1 } as const;
  const request = requestFor(QUERIES.snapshot, 3, asked);
  const bytes = new Uint8Array(new SharedArrayBuffer(requestBytesMax(request) + 8));
  const view = new DataView(bytes.buffer);
  const size = writeRequest(request, 1, 0, bytes, view, 8);
  const query = new Query();
  query.read(bytes, view, 8, size);
  bytes.fill(0xc1);
  assert.equal(query.op, QUERIES.snapshot.number);
  assert.deepEqual(QUERIES.snapshot.request.read(query), asked);
  assert.equal(query.keyText(), 'Ünï\0s/1');
  const learner = { call: 'learner', node: 4, address: 'n'.repeat(1000) } as const;
  assert.deepEqual(QUERIES.admin.request.read(queryOf(requestFor(QUERIES.admin, 0, learner))), learner);
  assert.equal(queryOf(requestFor(QUERIES.status, ALL_GROUPS, undefined)).message, undefined);
});

test('a result comes out of shared memory as it was given, and is not overwritten with it', () => {
  const result: StatusResult = {
    raft_groups: [
      { raft_group_id: 0, leader: null, voter_ids: [1, 2], member_addresses: { 4: 'n4:1' }, term: 2 ** 52 },
    ],
    counters: { turns: 1.5 },
    per_group: { appends: [1, 2] },
    disk_full: false,
  };
  const digest = 'ünï'.repeat(50);
  const slice = { offset: -1, incarnation: 2 ** 40, size: 3, digest, bytes: Uint8Array.of(1, 2, 3) };
  const through = (written: Reply): Reply => {
    const bytes = new Uint8Array(new SharedArrayBuffer(written.bytesMax()));
    const view = new DataView(bytes.buffer);
    written.write(bytes, view, 0);
    const read = new Reply();
    read.read(bytes, view, 0);
    return read;
  };
  const reply = new Reply();
  QUERIES.status.result.write(reply, result);
  assert.deepEqual(QUERIES.status.result.read(through(reply)), result);
  QUERIES.snapshot.result.write(reply, slice);
  const frame = through(reply);
  const read = QUERIES.snapshot.result.read(frame);
  frame.body?.fill(0xc1);
  assert.deepEqual({ ...read, bytes: Uint8Array.from(read.bytes) }, slice);
});

test('a message in a reply can be copied and moved without the memory of those packed before and after it', () => {
  const first = new Reply();
  const second = new Reply();
  const third = new Reply();
  const json = Uint8Array.of(1, 2, 3);
  QUERIES.getAttributes.result.write(first, { json });
  QUERIES.getAttributes.result.write(second, { json });
  const { body } = second;
  assert(body !== undefined);
  const copy = body.slice();
  assert.equal(copy.byteLength, copy.buffer.byteLength);
  structuredClone(copy.buffer, { transfer: [copy.buffer as ArrayBuffer] });
  QUERIES.getAttributes.result.write(third, { json });
  for (const reply of [first, second, third]) {
    assert.deepEqual(Uint8Array.from(QUERIES.getAttributes.result.read(reply).json), json);
  }
});

test('a read comes through its own layout, with the key of its stream', () => {
  const request = requestFor(QUERIES.read, 3, {
    ...{
      ...NAMED,
      mode: READ_RECORD,
      value: 2 ** 53 - 1,
      maxBytes: 2 ** 32 - 1,
      maxRecords: 7,
      readFlags: 3,
      topic: 9,
    },
  });
  holdRead(request, { incarnation: 2 ** 48, lineage: 5, nextOffset: 2 ** 52, reachedTail: false });
  const query = queryOf(request);
  assert.deepEqual({ ...QUERIES.read.request.read(query) }, { ...request.read });
  assert.deepEqual([query.fields.held, query.fields.heldEnd, query.keyText()], [HELD_TO_BOUND, 2 ** 52, 'Ünï\0s/1']);
});

test('the caller of a shard gets an answer even when the body is no message', async () => {
  const gateway = new ScriptedGateway();
  // An array of two, which are missing.
  gateway.script = (_asked, reply) => void (reply.body = Uint8Array.of(0x92));
  const answer = await callShard(gateway, QUERIES.list, 0, { bucket: 'b', prefix: '', after: '', limit: 1 });
  assert.equal(answer.code, 'INTERNAL');
});

test('the lifetime in an answer that another node forwarded is whole numbers or none', () => {
  const { result } = COMMANDS.forkEnd;
  const reply = new Reply();
  result.write(reply, { ttlSeconds: 60, expiresAtMs: -1 });
  assert.deepEqual(result.read(reply), { ttlSeconds: 60, expiresAtMs: -1 });
  // The text of the reply, by the only other name that it has.
  for (const text of ['', ' ', 'x y', '1e400 NaN', '9007199254740993 -5', '1.5', 'Infinity 0x10']) {
    explain(reply, text);
    assert.deepEqual(result.read(reply), { ttlSeconds: -1, expiresAtMs: -1 }, text);
  }
});
