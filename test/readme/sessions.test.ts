// Every block that a document marks with `run: test/readme/sessions.test.ts`, executed: one server for each document,
// its blocks in their order. Changed are only the ports.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blocksOf, documentPaths, readDocument } from '../support/documents.ts';
import { withServer } from '../support/server.ts';
import { Session } from './session.ts';
import { joined, parseSteps } from './shell-block.ts';

const MARK = 'run: test/readme/sessions.test.ts';

const marked = documentPaths()
  .map((path) => ({ path, blocks: blocksOf(readDocument(path)).filter(({ comment }) => comment === MARK) }))
  .filter(({ blocks }) => blocks.length > 0);

test('there are sessions', () => assert(marked.length >= 2));

for (const { path, blocks } of marked) {
  test(`the sessions of ${path} work as written`, async () => {
    await withServer({ cores: 1, groups: 4 }, async ({ port, adminPort }) => {
      const session = new Session((command) =>
        command
          .replaceAll('localhost:4437', `localhost:${port}`)
          .replaceAll('localhost:4438', `localhost:${adminPort}`),
      );
      const steps = parseSteps(joined(blocks.flatMap(({ lines }) => lines)));
      assert(
        steps.some(({ status, output }) => status !== undefined || output !== undefined),
        'a session shows results',
      );
      for (const step of steps) {
        assert(step.kind === 'ask' || step.kind === 'variable', step.command);
        await session.execute(step);
      }
    });
  });
}
