// A planted bug must be found by the fixed seeds.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { FIXED_SEEDS, FOUND_BY } from './fixed-seeds.ts';

/** The seeds on record showed these until the draws changed, and neither do the fixed ones: new seeds have to be found. */
const SOUGHT: ReadonlySet<string> = new Set([
  ...['old-term-committed-by-counting', 'partial-not-stored', 'sweep-takes-merges', 'fork-cut-short'],
  ...['directories-not-remembered', 'directories-not-remembered, blind', 'quota-of-streams-forgotten'],
  ...['export-of-an-import', 'import-piece-of-another'],
  'import-end-unchecked',
]);

/**
 * `run` throws what a run of one seed finds. The seed on record comes first: a search through all of them takes
 * minutes, and is for when code or draws have changed since.
 */
export function mustBeFound(t: TestContext, name: string, run: (seed: number) => void): void {
  if (SOUGHT.has(name)) return t.skip('no seed is on record that shows it: search for one');
  const recorded = FOUND_BY[name];
  const seeds = recorded === undefined ? FIXED_SEEDS : [recorded, ...FIXED_SEEDS];
  for (const [i, seed] of seeds.entries()) {
    try {
      run(seed);
    } catch (error) {
      assert(error instanceof Error && error.message.startsWith('FAIL'), String(error));
      t.diagnostic(error.message.slice(0, 200));
      if (i > 0) t.diagnostic(`put it on record (fixed-seeds.ts): '${name}': 0x${seed.toString(16)}`);
      return;
    }
  }
  assert.fail(`${seeds.length} seeds, and none fails`);
}
