// Every TOML block of the documents that is a node's configuration, or its tokens, is one that a node takes. Changed are only files
// that the test has not.
import assert from 'node:assert/strict';
import { chmodSync } from 'node:fs';
import { test } from 'node:test';
import { loadConfig } from '../../src/config/load.ts';
import { readLimitsFile } from '../../src/config/limits-file.ts';
import { readTokensFile } from '../../src/config/tokens-file.ts';
import { scratchFile } from '../support/ctl.ts';
import { blocksOf, documentPaths, readDocument } from '../support/documents.ts';

const SECRET = '8f14e45fceea167a5a36dedd4bea2543\n';
/** Contents in place of files, by the end of their names. */
const CONTENTS: readonly (readonly [end: string, content: string])[] = [
  ['-identity.txt', `AGE-SECRET-KEY-1${'Q'.repeat(58)}\n`],
  ['-recipients.txt', `age1${'q'.repeat(58)}\n`],
  ['', SECRET],
];

function standIn(named: string): string {
  const content = CONTENTS.find(([end]) => named.endsWith(`${end}"`))?.[1] ?? SECRET;
  const file = scratchFile('secret', content);
  chmodSync(file, 0o600);
  return JSON.stringify(file);
}

const blocks = documentPaths().flatMap((path) =>
  blocksOf(readDocument(path))
    .filter(({ language }) => language === 'toml')
    .map(({ heading, lines }) => ({ path, heading, text: `${lines.join('\n')}\n` })),
);

test('configurations in documents are accepted', () => {
  const configs = blocks.filter(({ text }) => !/\[\[(nodes|tokens)\]\]|^\[bucket\]/m.test(text));
  assert(configs.length >= 2, 'there are some');
  for (const { path, heading, text } of configs) {
    const local = text.replaceAll(/"\/etc\/millrace\/[\w.-]+"/g, standIn);
    assert.doesNotThrow(() => loadConfig(['--config', scratchFile('millrace.toml', local)]), `${path}, ${heading}`);
  }
});

test('limits in documents are accepted', () => {
  const [limits, ...more] = blocks.filter(({ text }) => /^\[bucket\]/m.test(text));
  assert(limits !== undefined && more.length === 0);
  assert.equal(readLimitsFile(scratchFile('limits.toml', limits.text), limits.path).buckets.length, 1);
});

test('tokens in documents are accepted', () => {
  const lists = blocks.filter(({ text }) => text.includes('[[tokens]]'));
  assert(lists.length >= 1, 'there are some');
  for (const { path, heading, text } of lists) {
    const kind = /^role = /m.test(text) ? 'role' : 'scopes';
    const { tokens } = readTokensFile(scratchFile('tokens.toml', text), `${path}, ${heading}`, kind);
    assert(tokens.length > 0);
  }
});
