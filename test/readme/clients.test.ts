// The programs of src/http/clients.md: each runs on its own against one server and
// prints what its comments say. Changed are only ports.
import assert from 'node:assert/strict';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';
import { CATALOG } from '../support/documented.ts';
import { type Block, blocksOf, readDocument } from '../support/documents.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { freePort } from '../support/ports.ts';
import { TestServer, removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const MARK = 'run: test/readme/clients.test.ts';
const PRINTS = /(?:console\.log|print)\b.*(?:\/\/|#) (.*)$/;

const programs = blocksOf(readDocument('src/http/clients.md')).filter(({ comment }) => comment === MARK);
const server = new TestServer({
  ...{ cores: 1, groups: 4, toml: '[subscriptions]\nlocal_webhooks = true\n' },
});
const folder = temporaryFolder('clients');

before(async () => {
  symlinkSync(join(REPO_ROOT, 'node_modules'), join(folder, 'node_modules'));
  await server.start();
});
after(async () => {
  await server.dispose();
  removeFolder(folder);
});

async function runProgram({ language, lines }: Block, receiverPort: number): Promise<void> {
  const file = join(folder, `program.${language === 'js' ? 'mjs' : language}`);
  const text = lines.join('\n').replaceAll('localhost:4437', `localhost:${server.port}`);
  writeFileSync(file, text.replaceAll('9000', String(receiverPort)));
  const program = run([language === 'js' ? process.execPath : 'python3', file]);
  const code = await within(program.exited, PATIENCE_MS, 'a program of the page');
  const printed = program.output().trimEnd().split('\n');
  assert.equal(code, 0, program.output());
  const promised = lines.flatMap((line) => PRINTS.exec(line)?.[1] ?? []);
  assert(promised.length > 0, 'a program prints something');
  assert.deepEqual(printed, promised);
}

for (const program of programs) {
  test(`${program.heading}: a program of the page works as written`, async (t) => {
    if (program.language === 'py') {
      const isThere = await run(['python3', '-c', 'import durable_streams']).exited;
      if (isThere !== 0) return t.skip('needs the Python client: pip install durable-streams');
    }
    return await runProgram(program, await freePort());
  });
}

test('the page has programs in both languages', () => {
  assert.deepEqual([...new Set(programs.map(({ language }) => language))].sort(), ['js', 'py']);
});

test('a node says of every path of the client plane what its OpenAPI document says', async () => {
  const paths = new Set(CATALOG.filter(({ planes }) => planes.includes('client')).map(({ path }) => path));
  // Only a node with a signing key has it: test/conformance/narrowed-tokens.test.ts.
  paths.delete('/__svc/tokens');
  for (const path of paths) {
    const { headers } = await fetch(server.url + path.replaceAll(/\{\w+\}/g, '1'), { method: 'OPTIONS' });
    const allowed = (headers.get('allow') ?? '').split(', ').filter((method) => method !== 'OPTIONS');
    const documented = CATALOG.filter((entry) => entry.path === path && entry.planes.includes('client'));
    assert.deepEqual(allowed.sort(), documented.map(({ method }) => method).sort(), path);
  }
});
