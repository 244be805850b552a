// The table of operations: its numbers are in logs and on the wire, and its traits decide what peers and full disks let
// through.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COMMANDS, type CommandName, QUERIES, byNumber, commandsWhere } from '../../src/protocol/operations.ts';
import type { CommandTraits } from '../../src/protocol/operation.ts';

function namesWhere(trait: (traits: CommandTraits) => boolean): string {
  const members = commandsWhere(trait);
  const names = Object.entries<CommandTraits>(COMMANDS).filter(([, { number }]) => members.has(number));
  return names.map(([name]) => name).join(' ');
}

test('numbers of commands are in logs and never change', () => {
  const inOrder: readonly CommandName[] = [
    ...(['create', 'append', 'deleteStream', 'setAttributes', 'touch', 'expire', 'deleteBucket'] as const),
    ...([
      'appendBatch',
      'publishSnapshot',
      'retention',
      'purge',
      'quota',
      'flush',
      'gcDone',
      'markOrphan',
      'compact',
    ] as const),
    ...(['importBegin', 'importRows', 'importEnd', 'importAbort'] as const),
    ...([
      'forkBegin',
      'forkPin',
      'forkData',
      'forkEnd',
      'forkAbort',
      'forkUnpin',
      'forkUnpinned',
      'forkCheck',
    ] as const),
    'piece',
  ];
  inOrder.forEach((name, i) => assert.equal(COMMANDS[name].number, i + 1, name));
  assert.equal(Object.keys(COMMANDS).length, inOrder.length);
});

test('what a peer may send, and what a full disk lets through', () => {
  assert.equal(
    namesWhere(({ forwardable }) => !forwardable),
    'expire flush markOrphan compact piece',
  );
  assert.equal(
    namesWhere(({ freesSpace }) => freesSpace),
    'deleteStream deleteBucket retention purge importAbort forkAbort forkUnpin forkUnpinned',
  );
  assert.equal(
    namesWhere(({ wouldAddBytes }) => wouldAddBytes),
    'create append appendBatch forkData forkEnd',
  );
  assert.equal(
    namesWhere(({ body }) => body !== 'none'),
    'create append appendBatch forkEnd',
  );
  assert.equal(
    namesWhere(({ quota }) => quota === 'counted'),
    'create append appendBatch publishSnapshot forkBegin',
  );
  assert.equal(
    namesWhere(({ isImport }) => isImport),
    'importBegin importRows importEnd importAbort',
  );
});

test('a table by number has a place for each name and none for others', () => {
  const table = byNumber({ append: 'a', read: 'r' });
  assert.equal(table[COMMANDS.append.number], 'a');
  assert.equal(table[QUERIES.read.number], 'r');
  assert.equal(table[COMMANDS.create.number], undefined);
  assert.equal(table[0], undefined);
  assert.throws(() => byNumber({ shout: 1 }), /shout is an operation/);
});
