// The replay of power losses finds bugs: one is planted into a real server, and some image of its disk lacks what was
// acknowledged, or is refused. The images are opened by the code that ships.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { test } from 'node:test';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { plantedServer, withBug } from '../support/planted-server.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { ACKNOWLEDGED, countIn, record, used } from './power-loss.ts';
import { hasStrace } from './strace.ts';

const APPENDS = 30;
/** Some image of so many shows it: most of the first ones do. */
const IMAGES = 60;

test('a power loss finds a log that is not synced', async (t) => {
  if (!(await hasStrace(t))) return;
  const folder = temporaryFolder('power-planted');
  t.after(() => removeFolder(folder));
  const random = createRandom(seedFromEnvironment());
  const server = { entry: plantedServer(folder), env: withBug('log-not-synced') };
  const recording = await record(t, { dataDir: await used(t), from: 0, count: APPENDS, server });
  const answers = recording.answers(ACKNOWLEDGED);
  for (let i = 0; i < IMAGES; i++) {
    const line = recording.momentAfter(answers[0] ?? 0, random);
    const acknowledged = answers.filter((at) => at < line).length;
    const image = recording.image(line, random);
    const count = await countIn(image).catch(() => 'refused');
    rmSync(image, { recursive: true });
    if (count === 'refused' || Number(count) < acknowledged) return;
  }
  assert.fail(`no image shows it, SEED=${random.seed}`);
});
