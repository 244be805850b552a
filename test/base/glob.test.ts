import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Glob } from '../../src/base/glob.ts';

const CASES: readonly (readonly [pattern: string, yes: readonly string[], no: readonly string[]])[] = [
  ['events/*', ['events/a', 'events/*'], ['events', 'events/a/b', 'other/a', 'xevents/a']],
  ['events/**', ['events', 'events/a', 'events/a/b/c'], ['event', 'x/events']],
  ['**', ['a', 'a/b'], []],
  ['**/log', ['log', 'a/log', 'a/b/log'], ['a/log/b', 'logs']],
  ['a/**/b/*/c', ['a/b/x/c', 'a/y/b/x/c', 'a/b/b/b/c', 'a/b/q/b/x/c'], ['a/b/c', 'a/b/x/c/d']],
  ['a/**/b/**/c', ['a/b/c', 'a/1/b/2/3/c', 'a/b/b/c/c'], ['a/c', 'a/c/b']],
  ['a*', ['a*'], ['ab']],
  // An empty segment is a segment.
  ['a/*/', ['a/b/', 'a//'], ['a/b', 'a/', 'a/b/c/']],
  ['**/', ['a/b/', 'a//'], ['a/b']],
  ['a/*', ['a/'], ['a//']],
  ['exact/name', ['exact/name'], ['exact/names', 'exact']],
];

test('one star is one segment, two are any number of them', () => {
  for (const [pattern, yes, no] of CASES) {
    const glob = new Glob(pattern);
    for (const path of yes) assert(glob.matches(path), `${pattern} matches ${path}`);
    for (const path of no) assert(!glob.matches(path), `${pattern} does not match ${path}`);
  }
});

test('a hostile pattern takes no exponential time', () => {
  const glob = new Glob(`${'**/a/'.repeat(100)}b`);
  assert(!glob.matches('a/'.repeat(400) + 'c'));
});
