// A cluster in the middle of an upgrade: a command that a member does not know is refused before any log has it, because
// the member would stop when it applies the command, after each start again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, errorCode } from '../../src/base/errors.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { newRequest, requestBytesMax, writeRequest, type Request } from '../../src/protocol/request.ts';
import { Follower } from './follower.ts';

function append(expectedOffset: number): Request {
  const request = newRequest();
  request.op = COMMANDS.append.number;
  const payload = new Uint8Array(4);
  Object.assign(request.command, { kind: request.op, bucket: 'b', stream: 's', payload, expectedOffset });
  return request;
}

function frameOf(request: Request): Uint8Array {
  const bytes = new Uint8Array(requestBytesMax(request));
  return bytes.subarray(0, writeRequest(request, 1, 0, bytes, new DataView(bytes.buffer), 0));
}

/** Codes of the answers of this turn. */
const codes = (node: Follower): (ErrorCode | undefined)[] => node.turn().map(({ code }) => errorCode(code));

test('a follower passes on no write that a member is known not to know', () => {
  const node = new Follower();
  node.append(1, [0, 0], [], 0);
  node.turn();
  node.older.add(3);
  node.request(append(0));
  assert.deepEqual(codes(node), ['UPGRADE_UNFINISHED']);
  assert.equal(node.forwarded.length, 0);
  node.request(append(-1));
  assert.deepEqual(codes(node), []);
  assert.equal(node.forwarded.length, 1, 'other writes go on');
  node.older.clear();
  node.request(append(0));
  assert.deepEqual(codes(node), []);
  assert.equal(node.forwarded.length, 2, 'the member is upgraded, or was never heard');
});

test('a leader takes none either, from a node that does not see that member', () => {
  const node = new Follower();
  node.older.add(3);
  const told = (expectedOffset: number): ErrorCode | undefined => {
    const origin = { node: 2, shard: 0, boot: 1, correlation: node.replies.length };
    node.shard.onForward(origin, 0, frameOf(append(expectedOffset)), 1_700_000_000_000);
    const bytes = node.replies.at(-1);
    assert(bytes !== undefined);
    const reply = new Reply();
    reply.read(bytes, new DataView(bytes.buffer, bytes.byteOffset), 8);
    return errorCode(reply.code);
  };
  assert.equal(told(0), 'UPGRADE_UNFINISHED');
  assert.equal(told(-1), 'NO_LEADER', 'it does not lead, but looks at the command first');
});
