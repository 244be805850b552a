// Frames that a leader takes from other nodes: every command that a node sends for its clients, with and without a
// condition.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandKind, isCommandFrame } from '../../src/shard/frames.ts';
import { newRequest, requestBytesMax, writeRequest } from '../../src/protocol/request.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

function frameOf(kind: number, condition: string): Uint8Array {
  const request = newRequest();
  request.op = kind;
  Object.assign(request.command, { kind, bucket: 'b', stream: 's', payload: new Uint8Array(4), condition });
  const bytes = new Uint8Array(requestBytesMax(request));
  return bytes.subarray(0, writeRequest(request, 1, 0, bytes, new DataView(bytes.buffer), 0));
}

const isTaken = (frame: Uint8Array): boolean => isCommandFrame(frame, new DataView(frame.buffer), frame);

test('a leader takes the writes of other nodes, also conditional ones', () => {
  for (const kind of [
    COMMANDS.create.number,
    COMMANDS.append.number,
    COMMANDS.appendBatch.number,
    COMMANDS.deleteStream.number,
    COMMANDS.setAttributes.number,
  ]) {
    for (const condition of ['', '- *', '0123456789abcdef -']) {
      const frame = frameOf(kind, condition);
      assert(isTaken(frame), `kind ${kind}, condition "${condition}"`);
      assert.equal(commandKind(frame), kind);
      for (let size = 0; size < frame.length; size++) assert(!isTaken(frame.slice(0, size)), `${size} bytes of it`);
    }
  }
  for (const condition of ['', '- *']) assert(!isTaken(frameOf(COMMANDS.expire.number, condition)), "a leader's own");
});
