// Code and tests cite what a reader has: files of this repository, public standards, and published papers.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { REPO_ROOT } from '../support/paths.ts';
import { readText, sourcePaths } from './repository.ts';

/** Names of working papers. Their rules are in the documents of the rooms. */
const OUTSIDE = /\b(wire-facts|(service|decisions|design|house|style)\.md|issue \d+)\b/i;
const SCENARIOS = 'test/scenarios';

const EXCEPT = new Set(['test/tidy/citations.test.ts', 'test/tidy/documents.test.ts']);

test('comments cite nothing that is not here', () => {
  const scenarios = readdirSync(join(REPO_ROOT, SCENARIOS), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.txt'))
    .map((path) => `${SCENARIOS}/${path}`);
  const paths = [...sourcePaths(['src', 'workers', 'bench', 'test', 'scripts']), ...scenarios];
  const found = paths
    .filter((path) => !EXCEPT.has(path))
    .flatMap((path) =>
      readText(path)
        .split('\n')
        .flatMap((line, i) => (OUTSIDE.test(line) ? [`${path}:${i + 1}: ${line.trim()}`] : [])),
    );
  assert.deepEqual(found, [], 'restate the rule in the README of the room, and cite that');
  assert.match('// as wire-facts 2.9 wants it', OUTSIDE);
});
