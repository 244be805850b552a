// The programs of the library's page: each runs on its own against one server, and prints what its comments say.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';
import { blocksOf, readDocument } from '../support/documents.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { TestServer, removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const MARK = 'run: test/client/readme.test.ts';
const PRINTS = /console\.log\b.*\/\/ (.*)$/;
const LIBRARY = join(REPO_ROOT, 'dist/src/client/client.js');

const programs = blocksOf(readDocument('src/client/README.md')).filter(({ comment }) => comment === MARK);
const server = new TestServer({ cores: 1, groups: 4 });
const folder = temporaryFolder('client-readme');

before(async () => {
  const home = join(folder, 'node_modules/millrace-client');
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'package.json'), '{"name":"millrace-client","type":"module","exports":"./index.js"}');
  writeFileSync(join(home, 'index.js'), `export * from ${JSON.stringify(LIBRARY)};`);
  await server.start();
});
after(async () => {
  await server.dispose();
  removeFolder(folder);
});

for (const [i, { lines }] of programs.entries()) {
  test(`program ${i + 1} of the page works as written`, async () => {
    const file = join(folder, `program${i}.mjs`);
    writeFileSync(file, lines.join('\n').replaceAll('localhost:4437', `localhost:${server.port}`));
    const flags = process.versions.node.startsWith('20.') ? ['--experimental-websocket', '--no-warnings'] : [];
    const program = run([process.execPath, ...flags, file]);
    const code = await within(program.exited, PATIENCE_MS, 'a program of the page');
    assert.equal(code, 0, program.output());
    const promised = lines.flatMap((line) => PRINTS.exec(line)?.[1] ?? []);
    assert(promised.length > 0, 'a program prints something');
    assert.deepEqual(program.output().trimEnd().split('\n'), promised);
  });
}

test('the page has programs', () => assert.equal(programs.length, 2));
