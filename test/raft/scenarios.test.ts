import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as motion from './support/commands/motion.ts';
import * as requests from './support/commands/requests.ts';
import * as setup from './support/commands/setup.ts';
import * as show from './support/commands/show.ts';
import { runScenario } from './support/scenario.ts';
import type { Command } from './support/scenario.ts';
import { ScenarioCluster } from './support/scenario-cluster.ts';

type Handler = (stage: ScenarioCluster, command: Command) => void;
const { ids: _, ...setups } = setup;
const { snapshotFailed, ...asks } = requests;
const handlers: Record<string, Handler> = { ...setups, ...motion, ...asks, ...show, 'snapshot-failed': snapshotFailed };

/** The texts are not compiled: they are found from the compiled test upwards, or from where the tests are run. */
function scenarioFolder(): string {
  for (let at = dirname(fileURLToPath(import.meta.url)); at !== dirname(at); at = dirname(at)) {
    const folder = join(at, 'test', 'scenarios', 'raft');
    if (existsSync(folder)) return folder;
  }
  return join(process.cwd(), 'test', 'scenarios', 'raft');
}

const folder = scenarioFolder();
const files = readdirSync(folder)
  .filter((name) => name.endsWith('.txt'))
  .sort();

test('there are scenarios', () => assert.ok(files.length >= 14, `${files.length} in ${folder}`));

for (const file of files) {
  test(file, () => {
    const stage = new ScenarioCluster();
    const path = join(folder, file);
    const text = readFileSync(path, 'utf8');
    const real = runScenario(text, (command) => {
      if (command.name === 'quiet') {
        // quiet <command>: only what goes wrong matters.
        const { words, options } = command;
        handler(words[0])(stage, { name: words[0]!, words: words.slice(1), options });
        stage.report();
        return [];
      }
      handler(command.name)(stage, command);
      return stage.report();
    });
    if (process.env['UPDATE'] === '1') writeFileSync(path, real);
    else assert.equal(real, text);
  });
}

function handler(name: string | undefined): Handler {
  const found = handlers[name ?? ''];
  assert.ok(found !== undefined, `unknown command ${name}`);
  return found;
}
