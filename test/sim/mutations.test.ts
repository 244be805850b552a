import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FIXED_SEEDS } from './fixed-seeds.ts';
import { MUTATIONS } from './mutations.ts';
import { Simulation } from './simulation.ts';
import { SimFailure } from './world.ts';

/** The first fixed seed that finds the bug, and what it says. */
function hunt(name: string): string | undefined {
  for (const seed of FIXED_SEEDS) {
    try {
      new Simulation(seed, MUTATIONS[name]?.()).run();
    } catch (error) {
      if (!(error instanceof SimFailure)) throw error;
      return error.message;
    }
  }
  return undefined;
}

for (const name of Object.keys(MUTATIONS)) {
  test(`the fixed seeds find ${name}`, (t) => {
    const found = hunt(name);
    assert(found !== undefined, `${FIXED_SEEDS.length} seeds, and none fails`);
    t.diagnostic(found.slice(0, 200));
  });
}
