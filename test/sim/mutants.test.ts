// Each bug that is planted in the text of the code must be found by the fixed seeds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BACKUP_MUTANTS, BACKUP_VARIANTS } from './backup/mutants.ts';
import { FIXED_SEEDS } from './fixed-seeds.ts';
import { MUTANTS, type Mutant, mutated } from './mutants.ts';
import { COLD_STORM_EVERY, FORKS_EVERY, drawOptions } from './options.ts';

/** Those first in which most is found. */
function seedsFor(name: string, { forks }: Mutant): readonly number[] {
  const every = forks === true ? FORKS_EVERY : COLD_STORM_EVERY;
  const isFirst = (seed: number): boolean =>
    name in BACKUP_MUTANTS ? drawOptions(seed).backup.restore !== undefined : seed % every === 0;
  return [...FIXED_SEEDS.filter(isFirst), ...FIXED_SEEDS.filter((seed) => !isFirst(seed))];
}

const VARIANT_SEEDS = 30;

for (const name of Object.keys(BACKUP_VARIANTS)) {
  test(`nothing is found where nothing is wrong: ${name}`, async () => {
    const { Simulation } = await mutated(name);
    const seeds = FIXED_SEEDS.filter((seed) => drawOptions(seed).backup.restore !== undefined);
    for (const seed of seeds.slice(0, VARIANT_SEEDS)) new Simulation(seed).run();
  });
}

for (const [name, mutant] of Object.entries(MUTANTS)) {
  test(`the fixed seeds find ${name}`, async (t) => {
    const { Simulation } = await mutated(name);
    const seeds = seedsFor(name, mutant);
    for (const [i, seed] of seeds.entries()) {
      try {
        new Simulation(seed).run();
      } catch (error) {
        assert(error instanceof Error && error.message.startsWith('FAIL'), String(error));
        t.diagnostic(`${i + 1} seeds: ${error.message.slice(0, 200)}`);
        return;
      }
    }
    assert.fail(`${seeds.length} seeds, and none fails`);
  });
}
