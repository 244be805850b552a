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
const LIBRARY = join(REPO_ROOT, 'dist/src/client');
/** Files of the package, and the modules that they have. */
const MODULES = new Map([
  ['.', 'client'],
  ['./resumable-stream', 'resumable-stream'],
  ['./web-streams', 'web-streams'],
]);

const programs = blocksOf(readDocument('src/client/README.md')).filter(({ comment }) => comment === MARK);
const server = new TestServer({ cores: 1, groups: 4 });
const folder = temporaryFolder('client-readme');

before(async () => {
  const home = join(folder, 'node_modules/millrace-client');
  mkdirSync(home, { recursive: true });
  const exports = Object.fromEntries([...MODULES].map(([name, file]) => [name, `./${file}.js`]));
  writeFileSync(join(home, 'package.json'), JSON.stringify({ name: 'millrace-client', type: 'module', exports }));
  for (const file of MODULES.values()) {
    writeFileSync(join(home, `${file}.js`), `export * from ${JSON.stringify(join(LIBRARY, `${file}.js`))};`);
  }
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

test('the page has programs', () => assert.equal(programs.length, 4));
