// Results whose body is JSON come back as they were written, and a body of another form is an error, never a wrong value.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeUtf8 } from '../../src/base/utf8.ts';
import { callShard } from '../../src/gateway/shard-client.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import { explain } from '../../src/protocol/refusal.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { encodeMove, readMoves } from '../../src/protocol/watching.ts';
import { ScriptedGateway } from '../support/scripted-gateway.ts';

const LISTED = {
  stream_id: 's',
  status: 'Open',
  content_type: 'text/plain',
  tail_offset: 5,
  created_at_ms: 1,
  last_write_at_ms: 2,
} as const;
const STATUS = {
  raft_groups: [{ raft_group_id: 0, leader: null, voter_ids: [1, 2], member_addresses: { 4: 'n4:1' }, term: 3 }],
  counters: { turns: 1 },
  per_core: { turns: 1 },
  per_group: { appends: [1, 2] },
  disk_full: false,
};
const FORKS = {
  pendingNotifications: [{ group: 1, token: 7, source: 'b\0s' }],
  pinChecks: [{ group: 1, token: 7, source: 'b\0s', fork: 'b\0f', incarnation: 3 }],
};
const GARBAGE = { entries: 2, isRestored: true, seqs: [1, 2], keys: ['a'] };
const USAGE = { hasMore: true, rows: [['b', 1, 2, 3, 4, 5] as const] };

test('they come back as they were written', () => {
  const reply = new Reply();
  QUERIES.list.result.write(reply, [LISTED]);
  assert.deepEqual(QUERIES.list.result.read(reply), [LISTED]);
  QUERIES.status.result.write(reply, STATUS);
  assert.deepEqual(QUERIES.status.result.read(reply), STATUS);
  QUERIES.forks.result.write(reply, FORKS);
  assert.deepEqual(QUERIES.forks.result.read(reply), FORKS);
  QUERIES.bucketGarbage.result.write(reply, GARBAGE);
  assert.deepEqual(QUERIES.bucketGarbage.result.read(reply), GARBAGE);
  QUERIES.usage.result.write(reply, USAGE);
  assert.deepEqual(QUERIES.usage.result.read(reply), USAGE);
  const move = { bucket: 'b', stream: 's', incarnation: 1, tail: 2, isRemoved: true };
  reply.body = encodeUtf8(`[${encodeMove(move)}]`);
  assert.deepEqual(readMoves(reply), [move]);
});

/** Values in place of each member, at any depth. */
function* damaged(value: unknown): Generator<unknown> {
  for (const other of [null, 'x', 1.5, true, [], {}, [[]]]) {
    if (typeof other !== typeof value || Array.isArray(other) !== Array.isArray(value)) yield other;
  }
  if (typeof value !== 'object' || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    for (const other of damaged(member)) {
      yield Array.isArray(value) ? value.with(Number(name), other) : { ...value, [name]: other };
    }
  }
}

test('a body with any member of another type is refused', () => {
  const reply = new Reply();
  const cases: readonly (readonly [read: (reply: Reply) => unknown, body: unknown])[] = [
    [QUERIES.list.result.read, [LISTED]],
    [QUERIES.forks.result.read, FORKS],
    [QUERIES.bucketGarbage.result.read, { seqs: GARBAGE.seqs, keys: GARBAGE.keys }],
    [QUERIES.usage.result.read, USAGE.rows],
    [
      QUERIES.status.result.read,
      { raft_groups: [{ raft_group_id: 0, leader: 1, voter_ids: [1] }], counters: { a: 1 } },
    ],
    [readMoves, [['b', 's', 1, 2, 0]]],
  ];
  for (const [read, body] of cases) {
    for (const text of ['', 'null', '{"']) {
      reply.body = encodeUtf8(text);
      assert.throws(() => read(reply), text);
    }
    for (const bad of damaged(body)) {
      const text = JSON.stringify(bad);
      // A group without a leader, and lists without elements, are in order.
      if (/"leader":null/.test(text) || text === '[]' || text === '{}') continue;
      reply.body = encodeUtf8(text);
      assert.throws(() => read(reply), text);
    }
  }
});

test('a caller of a shard gets an answer whatever the body is', async () => {
  const gateway = new ScriptedGateway();
  gateway.script = (_asked, reply) => void (reply.body = encodeUtf8('[{"stream_id":7}]'));
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
