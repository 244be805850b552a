// A fixed set of trials: whatever a disk changes, a node serves what was acknowledged, or refuses in words, or gets it
// back from the others.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { type Result, Tally, runCampaign } from './campaign.ts';
import { FIXED } from './fixed.ts';
import { type Trial, commandOf } from './trial.ts';

/** With directories that the tests prepare once. */
const folder = temporaryFolder('campaign');
after(() => removeFolder(folder));

async function run(seeds: readonly number[], only: readonly string[]): Promise<Tally> {
  const tally = new Tally();
  const bad: string[] = [];
  const onResult = (trial: Trial, result: Result): void => {
    tally.add(trial, result);
    if (result.ending === 'BAD') bad.push(`${commandOf(trial, only)}: ${result.did}: ${result.why}`);
  };
  await runCampaign({ seeds, only, folder, processes: 1, onResult });
  assert.deepEqual(bad, []);
  return tally;
}

for (const [name, { seeds, only }] of Object.entries(FIXED)) {
  test(`no trial of the fixed set ends badly: ${name}`, async () => {
    assert.equal((await run(seeds, only)).count, seeds.length);
  });
}
