// The example of Yjs: its server and its pages, with the real packages from npm, against a node that restarts in between.
import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { blocksOf, readDocument } from '../support/documents.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { freePort } from '../support/ports.ts';
import { type Run, TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';
import { promisedBy, runProgram } from './programs.ts';

const MARK = 'run: test/client/yjs-example.test.ts';
const [server = [], pages = []] = blocksOf(readDocument('src/client/yjs-example.md'))
  .filter(({ comment }) => comment === MARK)
  .map(({ lines }) => lines);
const node = new TestServer({ cores: 1, groups: 4 });
const folder = temporaryFolder('yjs-example');
const servers: Run[] = [];

before(async () => {
  symlinkSync(join(REPO_ROOT, 'node_modules'), join(folder, 'node_modules'));
  await node.start();
});
after(async () => {
  await Promise.all(servers.map(async (one) => await one.end()));
  await node.dispose();
  removeFolder(folder);
});

function withPorts(lines: readonly string[], port: number): string {
  const code = lines.join('\n').replaceAll('localhost:4437', `127.0.0.1:${node.port}`);
  return code.replaceAll('localhost:8080', `127.0.0.1:${port}`).replace('port: 8080', `port: ${port}`);
}

/** Its port. */
async function startServer(): Promise<number> {
  const port = await freePort();
  servers.push(runProgram(join(folder, `server${port}.mjs`), withPorts(server, port)));
  const answers = async (): Promise<boolean> =>
    await fetch(`http://127.0.0.1:${port}/v1/yjs/notes/docs/none?offset=snapshot`).then(
      ({ status }) => status === 404,
      () => false,
    );
  await until('the server of the example', answers);
  return port;
}

async function runPage(lines: readonly string[], port: number): Promise<string[]> {
  const program = runProgram(join(folder, `page${port}.mjs`), withPorts(lines, port));
  assert.equal(await within(program.exited, PATIENCE_MS, 'the pages'), 0, program.output());
  return program.output().trimEnd().split('\n');
}

test('pages share a document, and another server has its snapshot after the node was stopped', async () => {
  assert.deepEqual(await runPage(pages, await startServer()), promisedBy(pages));
  await node.stop();
  await node.start();
  // Only opens the document, by what the pages begin with.
  const begin = pages.findIndex((line) => line.startsWith('const [ada, bob]'));
  const end = pages.findIndex((line) => line.startsWith('for (const { provider, awareness }'));
  const reads = [
    "const late = await open('Dee');",
    "console.log(late.text.toString().split('\\n')[0], late.text.length);",
  ];
  assert(begin > 0 && end > begin);
  const lines = [...pages.slice(0, begin), ...reads, ...pages.slice(end)];
  assert.deepEqual(await runPage(lines, await startServer()), ['1. Buy tea! 90012']);
});
