// Whether a fork is there is asked by the group of its source, also while the fork's own group is still to be restored.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apply } from '../../../src/stream/apply.ts';
import { NO_DIGEST } from '../../../src/stream/core/import-mark.ts';
import { pendingNotifications } from '../../../src/stream/forks/pin.ts';
import { State } from '../../../src/stream/core/state.ts';
import { Command, commandBytesMax, newCommandFields, writeCommand } from '../../../src/protocol/command.ts';
import { Reply } from '../../../src/protocol/reply.ts';
import { SortedMapTx } from '../sorted-map-tx.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

function answerOf(state: State, kind: number): boolean {
  const fields = { ...newCommandFields(), kind, bucket: 'bucket', stream: 'fork', forkToken: 7 };
  const bytes = new Uint8Array(commandBytesMax(fields));
  const view = new DataView(bytes.buffer);
  writeCommand(fields, bytes, view, 0);
  const command = new Command();
  command.read(bytes, view, 0);
  const reply = new Reply();
  reply.reset(1);
  state.appliedIndex++;
  apply(state, command, reply);
  assert.equal(reply.code, 0);
  return COMMANDS.forkCheck.result.read(reply).isThere;
}

test('a group that was never used does not say that a fork is gone', () => {
  const state = new State(1, new SortedMapTx());
  assert.equal(answerOf(state, COMMANDS.forkCheck.number), true);
  answerOf(state, COMMANDS.create.number);
  assert.equal(answerOf(state, COMMANDS.forkCheck.number), false);
});

test('a group that was restored with nothing in it says so', () => {
  const state = new State(1, new SortedMapTx());
  state.markImport({ phase: 'undone', token: '1', pieces: 0, rows: 0, lastMs: 0, digest: NO_DIGEST });
  assert.equal(answerOf(state, COMMANDS.forkCheck.number), true);
  state.markImport({ phase: 'done', token: '2', pieces: 0, rows: 0, lastMs: 0, digest: NO_DIGEST });
  assert.equal(answerOf(state, COMMANDS.forkCheck.number), false);
});

test('pending notifications are walked from any position, and each is found once', () => {
  const state = new State(1, new SortedMapTx());
  for (const token of [3, 5, 9]) state.forks.putUnpin({ token, source: Uint8Array.of(97, 0, 98) });
  const from = (token: number, most: number): number[] =>
    pendingNotifications(state, most, token).map((notification) => notification.token);
  assert.deepEqual(from(0, 9), [3, 5, 9]);
  assert.deepEqual(from(5, 9), [5, 9, 3]);
  assert.deepEqual(from(6, 2), [9, 3]);
  assert.deepEqual(from(4, 2), [5, 9]);
  assert.deepEqual(from(2 ** 48, 9), [3, 5, 9]);
});
