// A bug that is planted in the text of the code must be found by the fixed seeds.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { FIXED_SEEDS } from './fixed-seeds.ts';
import { mutated } from './mutants.ts';

/** `isFirst`: of the seeds in which most is found; the others follow. */
export async function mustBeFound(t: TestContext, name: string, isFirst: (seed: number) => boolean): Promise<void> {
  const { Simulation } = await mutated(name);
  const seeds = [...FIXED_SEEDS.filter(isFirst), ...FIXED_SEEDS.filter((seed) => !isFirst(seed))];
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
}
