// The examples of --help are command lines that the tool takes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openLocation } from '../../src/backup/format/location.ts';
import { helpFor, parseCommandLine } from '../../src/operator/command-line.ts';
import { Values } from '../../src/operator/flags.ts';
import { VERBS } from '../../src/operator/verbs.ts';
import { readDocument } from '../support/documents.ts';

const ENVIRONMENT = { MILLRACE_CLUSTER: 'cluster.toml' };

/** As a shell splits it, without where stdout goes. */
const wordsOf = (line: string): string[] =>
  [...line.replace(/ > \S+$/, '').matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');

for (const verb of VERBS) {
  test(`--help of ${verb.name} shows examples that it takes`, async () => {
    const help = await helpFor([...verb.name.split(' '), '--help'], VERBS);
    assert.notEqual(verb.examples.length, 0);
    for (const line of verb.examples) {
      assert(help?.includes(`  ${line}\n`), help);
      const [tool, ...args] = wordsOf(line);
      assert.equal(tool, 'millracectl');
      const parsed = parseCommandLine(args, VERBS);
      assert.equal(parsed.verb?.name, verb.name);
      void new Values(verb, parsed.given, ENVIRONMENT);
    }
  });
}

test('the manual names every verb', () => {
  const [, section = ''] = /^## The operator's tool$([^]*?)^## /m.exec(readDocument('src/operator/README.md')) ?? [];
  for (const { name } of VERBS) {
    const [first, second] = name.split(' ');
    // Verbs of one group share a row: `stream ls` · `cat`.
    const inRow = new RegExp(`\`${first} [a-z]+\`[^|\\n]*\`${second}\``);
    const isNamed = section.includes(`\`${name}\``) || section.includes(`millracectl ${name}`) || inRow.test(section);
    assert(isNamed, name);
  }
});

test('an S3 location with credentials is refused without showing them', async () => {
  await assert.rejects(
    openLocation('s3://AKIA:secret@bucket/x', { signal: new AbortController().signal, env: {} }),
    (error: Error) => {
      assert.match(error.message, /credentials come from the environment/);
      assert.doesNotMatch(error.message, /AKIA|secret/);
      return true;
    },
  );
});
