// Stories about the state machine, as text. UPDATE=1 rewrites what they expect: only commit what you understand.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runScenario } from '../raft/support/scenario.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { Story } from './story.ts';

const FOLDER = join(REPO_ROOT, 'test', 'scenarios', 'stream');
const files = readdirSync(FOLDER).filter((name) => name.endsWith('.txt'));

test('there are stories', () => assert(files.length >= 12, `${files.length} in ${FOLDER}`));

for (const file of files.sort()) {
  test(file, () => {
    const path = join(FOLDER, file);
    const text = readFileSync(path, 'utf8');
    const story = new Story();
    const real = runScenario(text, (command) => story.run(command));
    if (process.env['UPDATE'] === '1') writeFileSync(path, real);
    else assert.equal(real, text);
  });
}
