/**
 * `planted` in the simulator: hooks.ts loads this module in place of src/base/planted.ts. One bug at a time,
 * for the length of a run.
 */
import { planted as asked } from '../../../src/base/planted.ts';
import type { PlantedBug } from '../../../src/base/planted-bugs.ts';

let active: PlantedBug | undefined;
let hits = 0;

export function planted(bug: PlantedBug): boolean {
  if (bug !== active) return false;
  hits++;
  return true;
}

/** Undefined: none. */
export function plant(bug: PlantedBug | undefined): void {
  if (asked !== planted)
    throw new Error('no bug can be planted in the code that ships: load the simulation with load.ts');
  active = bug;
  hits = 0;
}

/** How often the code came by the bug's points since it was planted. */
export function plantedHits(): number {
  return hits;
}
