// The programs of the library's page: each runs on its own against one server, and prints what its comments say.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { blocksOf, readDocument } from '../support/documents.ts';
import { TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';
import { installClient, promisedBy, runProgram } from './programs.ts';

const MARK = 'run: test/client/readme.test.ts';

const programs = blocksOf(readDocument('src/client/README.md')).filter(({ comment }) => comment === MARK);
const server = new TestServer({ cores: 1, groups: 4 });
const folder = temporaryFolder('client-readme');

before(async () => {
  installClient(folder);
  await server.start();
});
after(async () => {
  await server.dispose();
  removeFolder(folder);
});

for (const [i, { lines }] of programs.entries()) {
  test(`program ${i + 1} of the page works as written`, async () => {
    const code = lines.join('\n').replaceAll('localhost:4437', `localhost:${server.port}`);
    const program = runProgram(join(folder, `program${i}.mjs`), code);
    const exit = await within(program.exited, PATIENCE_MS, 'a program of the page');
    assert.equal(exit, 0, program.output());
    const promised = promisedBy(lines);
    assert(promised.length > 0, 'a program prints something');
    assert.deepEqual(program.output().trimEnd().split('\n'), promised);
  });
}

test('the page has programs', () => assert.equal(programs.length, 4));
