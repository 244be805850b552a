/**
 * `npm run campaign`: `-- --trials COUNT` for so many, `--from SEED` to start elsewhere, `--only state,flip` for those
 * of a scene, place or fault, `--seed N` for one, `--processes N` side by side, `--keep FOLDER` to prepare directories
 * once for several runs.
 */
import { mkdirSync } from 'node:fs';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { Tally, runCampaign } from './campaign.ts';
import { commandOf, trialOf } from './trial.ts';

const { values } = parseArgs({
  options: {
    trials: { type: 'string', default: '100' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    only: { type: 'string', default: '' },
    processes: { type: 'string', default: '1' },
    keep: { type: 'string' },
  },
});
const only = values.only.split(',').filter((word) => word !== '');
const from = Number(values.seed ?? values.from);
const count = values.seed === undefined ? Number(values.trials) : 1;
const folder = values.keep ?? temporaryFolder('campaign');
mkdirSync(folder, { recursive: true });
const tally = new Tally();
const startMs = performance.now();
/** The trials of a run that is ended early count too. */
function report(): void {
  const seconds = (performance.now() - startMs) / 1000;
  process.stdout.write(`${tally.table()}${tally.count} trials, ${tally.bad} bad, ${seconds.toFixed(0)} s\n`);
  process.exitCode = tally.bad === 0 ? 0 : 1;
}
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    report();
    process.exit();
  });
await runCampaign({
  orders: Array.from({ length: count }, (_, i) => ({ seed: from + i, only })),
  folder,
  processes: Number(values.processes),
  onResult: ({ seed }, result) => {
    const trial = trialOf(seed, only);
    tally.add(trial, result);
    const { scene, place, fault } = trial;
    if (result.ending === 'BAD' || count === 1)
      process.stdout.write(
        `${result.ending}: ${scene} ${place} ${fault} (${result.did}): ${result.why}\n  ${commandOf(trial, only)}\n`,
      );
  },
});
if (values.keep === undefined) removeFolder(folder);
report();
