// Two gates of the HTTP side: which code may pass functions to the HTTP library, and which tables may be accessed by a
// name from outside.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readText, sourcePaths } from './repository.ts';

/** A handler registered elsewhere ends the process when it throws. */
const REGISTRATION = /\.(onAborted|onData|onWritable)\(/;
const GUARD = 'src/http/guard.ts';
/**
 * Object literals by name: `table[method]` finds what every object inherits. `Object.keys(table)` and own fields are no
 * look-ups.
 */
const BY_NAME = /(?<!#)\b[A-Za-z_]*(?:methods?|handlers?|routes?|headers|HANDLERS|ROUTES|METHODS)\[(?!['"]?\d)[^\]]+\]/;

function code(path: string): string[] {
  return readText(path)
    .split('\n')
    .filter((line) => !/^\s*(\*|\/\/|\/\*)/.test(line));
}

test('only the guard hands functions to uWebSockets.js', () => {
  const paths = sourcePaths(['src']).filter((path) => path.startsWith('src/http/'));
  assert.ok(paths.includes(GUARD));
  const found = paths.filter((path) => path !== GUARD && code(path).some((line) => REGISTRATION.test(line)));
  assert.deepEqual(found, [], `use ${GUARD}`);
});

test('tables of methods and handlers are maps, not object literals', () => {
  const found = sourcePaths(['src'])
    .filter((path) => /^src\/(http|peer|server)\//.test(path))
    .flatMap((path) => code(path).flatMap((line) => (BY_NAME.test(line) ? [`${path}: ${line.trim()}`] : [])));
  assert.deepEqual(
    found.filter((line) => !/headers\['[a-z-]+'\]/.test(line)),
    [],
  );
});

test('the gates see what they are for', () => {
  assert.match('    res.onData((chunk) => take(chunk));', REGISTRATION);
  assert.match("  const handler = methods[method === 'head' ? 'get' : method];", BY_NAME);
  assert.match('  const handler = HANDLERS[prefix] as Handler;', BY_NAME);
});
