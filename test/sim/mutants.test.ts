// Each bug that is planted in the text of the cold tier must be found by the fixed seeds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FIXED_SEEDS } from './fixed-seeds.ts';
import { MUTANTS, mutated } from './mutants.ts';
import { COLD_STORM_EVERY } from './options.ts';

/** Those first in which most is found. */
const SEEDS = [
  ...FIXED_SEEDS.filter((seed) => seed % COLD_STORM_EVERY === 0),
  ...FIXED_SEEDS.filter((seed) => seed % COLD_STORM_EVERY !== 0),
];

for (const name of Object.keys(MUTANTS)) {
  test(`the fixed seeds find ${name}`, async (t) => {
    const { Simulation } = await mutated(name);
    for (const seed of SEEDS) {
      try {
        new Simulation(seed).run();
      } catch (error) {
        assert(error instanceof Error && error.message.startsWith('FAIL'), String(error));
        t.diagnostic(error.message.slice(0, 200));
        return;
      }
    }
    assert.fail(`${SEEDS.length} seeds, and none fails`);
  });
}
