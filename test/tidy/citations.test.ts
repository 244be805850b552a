// Code and tests cite what a reader has: files of this repository, public standards, and published papers.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { REPO_ROOT } from '../support/paths.ts';
import { readText, sourcePaths } from './repository.ts';

const INVARIANTS = /\binvariants? (\d+)(?: and (\d+))?/gi;
/** The document whose invariants a file cites by number. */
const invariantsOf = (path: string): string =>
  /^(src|test)\/raft\//.test(path) ? 'src/raft/README.md' : 'src/README.md';

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

test('invariants that are cited by number exist, and each is cited where it is kept', () => {
  const cited = new Map<string, Set<string>>();
  for (const path of sourcePaths(['src', 'workers', 'test']).filter((path) => !EXCEPT.has(path))) {
    for (const [, one, other] of readText(path).matchAll(INVARIANTS)) {
      const document = invariantsOf(path);
      const numbers = cited.get(document) ?? new Set<string>();
      cited.set(document, numbers);
      for (const number of [one, other]) if (number !== undefined) numbers.add(number);
    }
  }
  for (const document of ['src/README.md', 'src/raft/README.md']) {
    const [, section = ''] = /\n## Invariants\n([^]*?)\n## /.exec(readText(document)) ?? [];
    const numbers = new Set([...section.matchAll(/^(\d+)\. /gm)].map(([, number]) => number));
    assert(numbers.size > 5, document);
    assert.deepEqual(cited.get(document), numbers, document);
  }
});
