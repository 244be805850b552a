// Comments, test names and messages are plain English: words that make a reader stop do not come back.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { REPO_ROOT } from '../support/paths.ts';
import { readText, sourcePaths } from './repository.ts';

/** Each with what to write instead; CONTRIBUTING.md says why. */
const WORDS: readonly (readonly [word: RegExp, instead: string])[] = [
  [/\bshall\b/i, 'must, will, or the present tense'],
  [/\bwhoever\b/i, 'name the node, client or caller'],
  [/\b(nobody|everybody|somebody|anybody)\b/i, 'name the node, client or caller, or "no node", "every reader"'],
  [/\bfor ever\b/i, 'forever, or permanently'],
  [/\berrands?\b/i, 'notification, request'],
  [/\banew\b/i, 'again, or "recreate", "restart"'],
  [/\b(for want of|in vain)\b/i, 'for lack of; without success'],
  [/\b(mischief|portrait|knocking|outpour)\b/i, 'chaos, digest, probe, streaming response'],
];
/** `nobody` is also the name of a Unix user, which is written as code. */
const CODE = /`[^`\n]*`|'nobody'|\bNOBODY\b/g;
const EXCEPT = new Set([
  'test/tidy/words.test.ts',
  'test/tidy/documents.test.ts',
  // Labels of frozen layouts.
  'test/upgrade/state-layouts.test.ts',
  // A note that backups carry, byte for byte.
  'src/backup/format/manifest.ts',
  // Have or quote the tool's output, which is a promise.
  'src/operator/drain.ts',
  'src/operator/backup.ts',
  'src/operator/verbs/rejoin.ts',
  'test/cluster/half-down.test.ts',
  'test/cluster/operator-token.test.ts',
  'test/cluster/operator.test.ts',
]);
const SCENARIOS = 'test/scenarios';

test('code, tests and scenarios are in plain words', () => {
  const scenarios = readdirSync(join(REPO_ROOT, SCENARIOS), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.txt'))
    .map((path) => `${SCENARIOS}/${path}`);
  const found = [...sourcePaths(['src', 'workers', 'bench', 'test', 'scripts']), ...scenarios]
    .filter((path) => !EXCEPT.has(path))
    .flatMap((path) =>
      readText(path)
        .split('\n')
        .flatMap((line, i) =>
          WORDS.filter(([word]) => word.test(line.replace(CODE, ''))).map(
            ([, instead]) => `${path}:${i + 1}: ${line.trim()} (instead: ${instead})`,
          ),
        ),
    );
  assert.deepEqual(found, []);
});

/** A comment that leaves its noun to the reader: "Of the stream; -1: none", "What is still needed of it". */
const VAGUE = /^\s*(?:\/\/|\/\*\*|\*) (?:Of|What|Who|Whose) /;

function vague(path: string, text: string): string[] {
  return text.split('\n').flatMap((line, i) => (VAGUE.test(line) ? [`${path}:${i + 1}: ${line.trim()}`] : []));
}

test('comments name their subject', () => {
  const paths = sourcePaths(['src', 'workers', 'bench', 'test', 'scripts']);
  assert.deepEqual(
    paths.flatMap((path) => vague(path, readText(path))),
    [],
  );
});

test('planted comments without a subject are found', () => {
  for (const line of ['/** Of a commit. */', '  // What is left.', '   * Who asked.', '* Whose links end.'])
    assert.equal(vague('x.ts', line).length, 1, line);
  for (const line of ['/** Offsets of the stream. */', "const a = 'Of a commit';", '// Whatever comes next.'])
    assert.deepEqual(vague('x.ts', line), []);
});
