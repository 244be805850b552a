// The example of an agent: its server and its page run as they stand in the document, and a second process of the server stops and resumes.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { blocksOf, readDocument } from '../support/documents.ts';
import { freePort } from '../support/ports.ts';
import { type Run, TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';
import { installClient, promisedBy, runProgram } from './programs.ts';

const MARK = 'run: test/client/agent-example.test.ts';

const [server = [], page = []] = blocksOf(readDocument('src/client/agent-example.md'))
  .filter(({ comment }) => comment === MARK)
  .map(({ lines }) => lines);
const node = new TestServer({ cores: 1, groups: 4 });
const folder = temporaryFolder('agent-example');
const processes: Run[] = [];

before(async () => {
  installClient(folder);
  await node.start();
});
after(async () => {
  await Promise.all(processes.map(async (one) => await one.end()));
  await node.dispose();
  removeFolder(folder);
});

function withPorts(lines: readonly string[], port: number): string {
  const code = lines.join('\n').replaceAll('localhost:4437', `127.0.0.1:${node.port}`);
  return code.replaceAll('localhost:8080', `127.0.0.1:${port}`).replace('listen(8080)', `listen(${port}, '127.0.0.1')`);
}

/** The URL of a process of its server. */
async function startServer(): Promise<string> {
  const port = await freePort();
  processes.push(runProgram(join(folder, `server${port}.mjs`), withPorts(server, port)));
  const url = `http://127.0.0.1:${port}`;
  const answers = async (): Promise<boolean> =>
    await fetch(url).then(
      () => true,
      () => false,
    );
  await until('the server of the example', answers);
  return url;
}

test('a page is reloaded, and another process stops, resumes and replays', async () => {
  const [url, other] = [await startServer(), await startServer()];
  const program = runProgram(join(folder, 'page.mjs'), withPorts(page, Number(new URL(url).port)));
  assert.equal(await within(program.exited, PATIENCE_MS, 'the page'), 0, program.output());
  const promised = promisedBy(page);
  assert.deepEqual(program.output().trimEnd().split('\n'), promised);
  const [, text = ''] = promised;
  const replayed = await fetch(`${other}/chat-1?at=17`);
  assert.equal(await replayed.text(), text.slice(17));
  const { body } = await fetch(`${url}/chat-2`, { method: 'POST' });
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  assert.equal((await reader?.read())?.value, 'The ');
  const stops = async (path: string): Promise<string> => await (await fetch(other + path, { method: 'DELETE' })).text();
  assert.deepEqual([await stops('/chat-2'), await stops('/chat-2'), await stops('/none')], ['true', 'DONE', 'null']);
  let rest = 'The ';
  for (let piece = await reader?.read(); piece?.done === false; piece = await reader?.read()) rest += piece.value;
  assert(text.startsWith(rest) && rest.length < text.length, `${rest} is a part of the text`);
  assert.equal((await fetch(`${other}/none`)).status, 404);
});
