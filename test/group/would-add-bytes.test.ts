// A leader refuses by the mark of a gate: only what would grow a bucket that has a quota here, and never what
// bears no mark.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quotaRefusal } from '../../src/group/would-add-bytes.ts';
import { State } from '../../src/stream/core/state.ts';
import { Command } from '../../src/protocol/command.ts';
import { Reply } from '../../src/protocol/reply.ts';
import {
  QUOTA_OVER,
  QUOTA_UNKNOWN,
  QUOTA_UNMARKED,
  REQUEST_HEAD_BYTES,
  newRequest,
  quotaMark,
  requestBytesMax,
  writeRequest,
} from '../../src/protocol/request.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

const bucketOf = (state: State): ReturnType<State['buckets']['of']> =>
  state.buckets.of(state.tx, new Uint8Array(Buffer.from('b')), 0, 1);

function refusal(state: State, op: number, mark: number): string {
  const request = newRequest();
  request.op = op;
  request.quotaMark = mark;
  Object.assign(request.command, { kind: op, bucket: 'b', stream: 's', contentType: 'text/plain' });
  const bytes = new Uint8Array(requestBytesMax(request));
  const view = new DataView(bytes.buffer);
  writeRequest(request, 1, 0, bytes, view, 0);
  const command = new Command();
  command.read(bytes, view, REQUEST_HEAD_BYTES);
  return quotaRefusal(quotaMark(view, REQUEST_HEAD_BYTES), state, command, 0, 1000, new Reply()) ?? 'none';
}

test('a bucket without a quota refuses nothing, whether the gate knows it or not', () => {
  const state = new State(0, new SortedMapTx());
  for (const op of [COMMANDS.create.number, COMMANDS.append.number]) {
    assert.equal(refusal(state, op, QUOTA_UNKNOWN), 'none');
    assert.equal(refusal(state, op, QUOTA_UNMARKED), 'none');
  }
});

for (const bound of ['streamsMax', 'retainedBytesMax'] as const) {
  test(`a bucket with ${bound} refuses what grows it by the mark`, () => {
    const state = new State(0, new SortedMapTx());
    bucketOf(state)[bound] = 10;
    assert.equal(refusal(state, COMMANDS.create.number, QUOTA_UNKNOWN), 'QUOTA_UNKNOWN');
    assert.equal(refusal(state, COMMANDS.create.number, QUOTA_OVER), 'QUOTA_EXCEEDED');
    // Nodes of the version before mark nothing.
    assert.equal(refusal(state, COMMANDS.create.number, QUOTA_UNMARKED), 'none');
    // A missing stream: the answer is 404, regardless of the quota.
    for (const mark of [QUOTA_UNKNOWN, QUOTA_OVER]) assert.equal(refusal(state, COMMANDS.append.number, mark), 'none');
  });
}
