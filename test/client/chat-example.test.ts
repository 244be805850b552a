// The example of a chat: its programs run as they stand in the document, and a member that is killed is seen no more.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { blocksOf, readDocument } from '../support/documents.ts';
import { TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';
import { installClient, promisedBy, runProgram } from './programs.ts';

const MARK = 'run: test/client/chat-example.test.ts';
const [room = [], page = []] = blocksOf(readDocument('src/client/chat-example.md'))
  .filter(({ comment }) => comment === MARK)
  .map(({ lines }) => lines);
const node = new TestServer({ cores: 1, groups: 4 });
const folder = temporaryFolder('chat-example');

before(async () => {
  installClient(folder);
  writeFileSync(join(folder, 'room.mjs'), room.join('\n'));
  await node.start();
});
after(async () => {
  await node.dispose();
  removeFolder(folder);
});

const withPort = (code: string): string => code.replaceAll('localhost:4437', `127.0.0.1:${node.port}`);

test('members see each other, what is said, and what was said before', async () => {
  const program = runProgram(join(folder, 'page.mjs'), withPort(page.join('\n')));
  assert.equal(await within(program.exited, PATIENCE_MS, 'the page'), 0, program.output());
  assert.deepEqual(program.output().trimEnd().split('\n'), promisedBy(page));
});

/** Says whom it sees, whenever that changes. */
const memberNamed = (name: string): string => `
  import { connect } from 'millrace-client';
  import { enter } from './room.mjs';
  const room = await enter(connect('http://localhost:4437'), 'dark', '${name}');
  let seen = '';
  room.addEventListener('change', () => {
    if (room.members().join() !== seen) console.log((seen = room.members().join()));
  });`;

test('a member that dies is gone for the others', async () => {
  const start = (name: string): ReturnType<typeof runProgram> =>
    runProgram(join(folder, `${name}.mjs`), withPort(memberNamed(name)));
  const eve = start('Eve');
  const dan = start('Dan');
  try {
    await until('both are there', () => eve.output().includes('Dan,Eve\n'));
    dan.child.kill('SIGKILL');
    await until('one is left', () => eve.output().endsWith('\nEve\n'));
    assert.equal(eve.isRunning, true);
  } finally {
    await Promise.all([eve.end(), dan.end()]);
  }
});
