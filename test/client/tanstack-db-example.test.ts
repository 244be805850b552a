// The example of TanStack DB: the real packages from npm, against a node in this process.
import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { blocksOf, readDocument } from '../support/documents.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';
import { promisedBy, runProgram } from './programs.ts';

const MARK = 'run: test/client/tanstack-db-example.test.ts';
const node = new TestServer({ cores: 1, groups: 4 });
const folder = temporaryFolder('tanstack-db-example');

before(async () => {
  symlinkSync(join(REPO_ROOT, 'node_modules'), join(folder, 'node_modules'));
  await node.start();
});
after(async () => {
  await node.dispose();
  removeFolder(folder);
});

test('two pages share a collection, and a third one finds it', async () => {
  const [page] = blocksOf(readDocument('src/client/tanstack-db-example.md')).filter(({ comment }) => comment === MARK);
  assert(page !== undefined);
  const code = page.lines.join('\n').replaceAll('localhost:4437', `127.0.0.1:${node.port}`);
  const program = runProgram(join(folder, 'page.mjs'), code);
  assert.equal(await within(program.exited, PATIENCE_MS, 'the page'), 0, program.output());
  assert.deepEqual(program.output().trimEnd().split('\n'), promisedBy(page.lines));
});
