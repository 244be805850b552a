// The power fails at any moment: of what a real server wrote, its disk holds all that was
// synced and any part of the rest. Whatever that is, the server starts on it, has everything
// that was acknowledged and nothing that was never sent.
import assert from 'node:assert/strict';
import { cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { RawClient } from '../support/raw-client.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { readAll } from './look.ts';
import { ACKNOWLEDGED, PATH, TEXT, countIn, countOf, record, used } from './power-loss.ts';
import { imagesOf } from './recording.ts';
import { hasStrace } from './strace.ts';

const APPENDS = 160;
/** A store is opened on so many disks, and a server started on some of them. */
const STORES = imagesOf(30, 0.6);
const SERVER_EVERY = 20;
const FIRST_STARTS = imagesOf(3, 0.15);
const FIRST_APPENDS = 4;
/** Recoveries that lose their power, and images of each. */
const RECOVERIES = imagesOf(1, 0.005);
const SECOND_IMAGES = 2;
const SECOND_APPENDS = 20;

/** How many appends a server serves that starts there. */
async function servedBy(t: TestContext, dataDir: string, where: string): Promise<number> {
  const server = new TestServer({ cores: 1, groups: 1, dataDir });
  t.after(() => server.dispose());
  await server.start().catch((error: unknown) => assert.fail(`${where}: ${String(error)}`));
  const client = await RawClient.connect(server.port);
  const { content = '' } = (await readAll(client, PATH, false)) ?? {};
  await client.request('PUT', PATH, TEXT);
  assert.equal((await client.request('POST', PATH, TEXT, 'later')).status, 204);
  client.destroy();
  await server.dispose();
  return countOf(content);
}

/** All that was acknowledged, and at most one that was on its way. */
function judge(found: number, acknowledged: number, where: string): void {
  assert(found >= acknowledged && found <= acknowledged + 1, `${where}: ${found} are there`);
}

function begin(): ReturnType<typeof createRandom> {
  const random = createRandom(seedFromEnvironment());
  process.stdout.write(`power loss: SEED=${random.seed}\n`);
  return random;
}

test('whatever a power loss leaves of a log and its checkpoints, a server starts on it with all that was acknowledged', async (t) => {
  if (!(await hasStrace(t))) return;
  const random = begin();
  const recording = await record(t, { dataDir: await used(t), from: 0, count: APPENDS });
  const answers = recording.answers(ACKNOWLEDGED);
  for (let i = 0; i < STORES; i++) {
    const line = recording.momentAfter(answers[0] ?? 0, random);
    const acknowledged = answers.filter((at) => at < line).length;
    const where = `SEED=${random.seed} disk ${i}, line ${line}, ${acknowledged} acknowledged`;
    const image = recording.image(line, random);
    judge(await countIn(image), acknowledged, where);
    if (i % SERVER_EVERY === 0) judge(await servedBy(t, image, where), acknowledged, where);
    rmSync(image, { recursive: true });
  }
});

test('a recovery from a power loss that loses its power too loses nothing', async (t) => {
  if (!(await hasStrace(t))) return;
  const random = begin();
  const first = await record(t, { dataDir: await used(t), from: 0, count: SECOND_APPENDS });
  for (let i = 0; i < RECOVERIES; i++) {
    const line = first.momentAfter(first.answers(ACKNOWLEDGED)[0] ?? 0, random);
    const image = first.image(line, random);
    // Opening changes nothing but what the next start would change too.
    const copy = join(first.folder, `copy-${i}`);
    cpSync(image, copy, { recursive: true });
    const before = await servedBy(t, copy, `SEED=${random.seed} line ${line}`);
    const second = await record(t, { dataDir: image, from: before, count: SECOND_APPENDS });
    const answers = second.answers(ACKNOWLEDGED);
    for (let j = 0; j < SECOND_IMAGES; j++) {
      // Half of them while it recovers.
      const at = random.chance(0.5) ? random.int(0, answers[0] ?? 0) : second.momentAfter(answers[0] ?? 0, random);
      const acknowledged = before + answers.filter((answer) => answer < at).length;
      const where = `SEED=${random.seed} line ${line}, then ${at}, ${acknowledged} acknowledged`;
      judge(await servedBy(t, second.image(at, random), where), acknowledged, where);
    }
  }
});

test('a first start that loses its power begins again', async (t) => {
  if (!(await hasStrace(t))) return;
  const random = begin();
  const folder = temporaryFolder('power-first');
  t.after(() => removeFolder(folder));
  const recording = await record(t, { dataDir: join(folder, 'data'), from: 0, count: FIRST_APPENDS });
  const answers = recording.answers(ACKNOWLEDGED);
  for (let i = 0; i < FIRST_STARTS; i++) {
    const at = random.chance(0.8) ? random.int(0, answers[0] ?? 0) : recording.momentAfter(0, random);
    const acknowledged = answers.filter((answer) => answer < at).length;
    const where = `SEED=${random.seed} disk ${i}, line ${at}, ${acknowledged} acknowledged`;
    const image = recording.image(at, random);
    judge(await servedBy(t, image, where), acknowledged, where);
    assert(existsSync(join(image, 'millrace.json')));
    rmSync(image, { recursive: true });
  }
});
