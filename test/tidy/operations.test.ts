// Parts of an operation that the compiler cannot miss: a room asks it, its result is written, its payload has a golden
// layout, and a test runs it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FORK_GONE } from '../../src/protocol/fork-gone.ts';
import { NO_RESULT } from '../../src/protocol/operation.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import { readText, sourcePaths } from './repository.ts';

const OPERATIONS = [
  ...Object.entries(COMMANDS).map(([name, { result }]) => ({ name: `COMMANDS.${name}`, result })),
  ...Object.entries(QUERIES).map(([name, { result }]) => ({ name: `QUERIES.${name}`, result })),
];
/** A group proposes these to itself, by number. */
const PROPOSED_BY_GROUPS = new Set(['COMMANDS.touch', 'COMMANDS.expire', 'COMMANDS.piece']);
/** Payloads that never leave the process. */
const IN_PROCESS = new Set(['encodeColdPlan']);
/** Written field by field, on the hot path. */
const WRITTEN_IN_PLACE = new Set(['QUERIES.read']);
/** These list operations without running them. */
const LISTS = new Set(['test/protocol/operations.test.ts', 'test/tidy/operations.test.ts']);

function textOf(folders: readonly string[], isOf: (path: string) => boolean): string {
  return sourcePaths(folders).filter(isOf).map(readText).join('\n');
}

const rooms = textOf(['src', 'workers'], (path) => !path.startsWith('src/protocol/'));
const tests = textOf(['test'], (path) => !LISTS.has(path));
const golden = textOf(['test/upgrade'], () => true);

/** Behind the name of an operation that is asked, not answered. */
const ASKS = '(?!\\.(number|result\\.write|request\\.read)\\b)';

/** Operations that occur nowhere in `text` with `behind` after their name. */
function without(text: string, behind: string, operations: readonly { readonly name: string }[]): string[] {
  return operations
    .map(({ name }) => name)
    .filter((name) => !new RegExp(`\\b${name.replace('.', '\\.')}\\b${behind}`).test(text));
}

test('every operation is asked by some room', () => {
  const asked = OPERATIONS.filter(({ name }) => !PROPOSED_BY_GROUPS.has(name));
  assert.deepEqual(without(rooms, ASKS, asked), []);
});

test('every result is written by those who answer', () => {
  // The function showUnpin writes FORK_GONE for all commands that remove a stream.
  const written = new Set<unknown>([
    FORK_GONE,
    ...OPERATIONS.filter(({ name }) => without(rooms, '\\.result\\.write\\(', [{ name }]).length === 0).map(
      ({ result }) => result,
    ),
  ]);
  const forgotten = OPERATIONS.filter(({ name, result }) => {
    return result !== NO_RESULT && !written.has(result) && !WRITTEN_IN_PLACE.has(name);
  });
  assert.deepEqual(
    forgotten.map(({ name }) => name),
    [],
    'write it with X.result.write(reply, ...), or declare NO_RESULT',
  );
});

test('other rooms read and write results, not the fields of a reply that carry them', () => {
  assert.deepEqual(rooms.match(/\breply\.[abc]\b/g), null);
});

test('every operation is run by a test', () => {
  assert.deepEqual(without(tests, '', OPERATIONS), []);
});

test('every payload has a golden layout in test/upgrade', () => {
  const encoders = sourcePaths(['src/protocol']).flatMap((path) =>
    [...readText(path).matchAll(/^export function (encode\w+)/gm)].map(([, name = '']) => name),
  );
  assert.deepEqual(
    encoders.filter((name) => !IN_PROCESS.has(name) && !new RegExp(`\\b${name}\\b`).test(golden)),
    [],
  );
});

test('the search sees what is missing', () => {
  const text = 'callGroup(gateway, COMMANDS.one, 3); COMMANDS.two.result.write(reply, 1); COMMANDS.three.number';
  const operations = ['one', 'two', 'three', 'thr'].map((name) => ({ name: `COMMANDS.${name}` }));
  assert.deepEqual(without(text, ASKS, operations), ['COMMANDS.two', 'COMMANDS.three', 'COMMANDS.thr']);
  assert.deepEqual(without(text, '\\.result\\.write\\(', operations), [
    'COMMANDS.one',
    'COMMANDS.three',
    'COMMANDS.thr',
  ]);
});
