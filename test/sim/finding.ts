// A planted bug must be found by the fixed seeds.
import assert from 'node:assert/strict';
import { FIXED_SEEDS, FOUND_BY, SOUGHT } from './fixed-seeds.ts';
import type { PlantedCase } from './planted/cases.ts';

export interface Finding {
  readonly isFound: boolean;
  /** The message of the run that failed; how many seeds were run, when none did. */
  readonly line: string;
}

/**
 * The seed on record comes first: a search through all of them takes minutes, and is for when code or draws have
 * changed since.
 */
export function search({ name, run }: PlantedCase): Finding {
  const recorded = FOUND_BY[name];
  const seeds = recorded === undefined ? FIXED_SEEDS : [recorded, ...FIXED_SEEDS];
  for (const [i, seed] of seeds.entries()) {
    try {
      run(seed);
    } catch (error) {
      assert(error instanceof Error && error.message.startsWith('FAIL'), String(error));
      const advice = i === 0 ? '' : ` | put it on record (fixed-seeds.ts): '${name}': 0x${seed.toString(16)}`;
      return { isFound: true, line: error.message.slice(0, 200) + advice };
    }
  }
  return { isFound: false, line: `${seeds.length} seeds, and none fails` };
}

/** `npm run sim -- --mutations`: all of them; returns how many were not found. */
export function searchAll(cases: readonly PlantedCase[], write: (line: string) => void): number {
  let missed = 0;
  for (const one of cases) {
    if (SOUGHT.has(one.name)) {
      write(`${one.name}: no seed is on record that shows it: search for one\n`);
      continue;
    }
    const { isFound, line } = search(one);
    if (!isFound) missed++;
    write(`${one.name}: ${line}\n`);
  }
  return missed;
}
