// Each claim of the threat model (.github/SECURITY.md) is shown by a test that is there.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDocument } from '../support/documents.ts';
import { exists } from './repository.ts';

const TEST = /`([a-z\d/-]+)`/g;

/** The rows of the table: a claim, and the files that show it. */
function claims(markdown: string): { claim: string; tests: string[] }[] {
  const [, model = ''] = markdown.split('## Threat model');
  const rows = model.matchAll(/^\|([^|]*)\|([^|]+)\|([^|]*)\|$/gm);
  return [...rows].slice(2).map(([, , claim = '', shown = '']) => ({
    claim: claim.trim(),
    tests: [...shown.matchAll(TEST)].map(([, path = '']) => path),
  }));
}

/** Claims without a test, and tests that are not there. */
function unshown(markdown: string): string[] {
  return claims(markdown).flatMap(({ claim, tests }) => {
    const absent = tests.filter((path) => !exists(`test/${path}.test.ts`));
    return tests.length === 0 ? [claim] : absent.map((path) => `${path}: ${claim}`);
  });
}

test('each claim of the threat model is shown by a test', () => {
  const markdown = readDocument('.github/SECURITY.md');
  assert(claims(markdown).length >= 20);
  assert.deepEqual(unshown(markdown), []);
});

test('a claim without a test, or with one that is gone, is found', () => {
  const planted =
    '## Threat model\n\n| A | B | C |\n|---|---|---|\n| one | nothing shows it | |\n| | gone | `a/b` |\n| | shown | `tidy/words` |\n';
  assert.deepEqual(unshown(planted), ['nothing shows it', 'a/b: gone']);
});
