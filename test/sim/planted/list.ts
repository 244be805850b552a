/** The table of planted bugs (src/base/planted-bugs.ts), as lists. */
import { PLANTED_BUGS, type PlantedBug } from '../../../src/base/planted-bugs.ts';

/** No bugs: bounds that simulations are otherwise too small for. Nothing may be found. */
export const VARIANTS: readonly PlantedBug[] = ['import-undone-in-many-steps'];

export function isPlantedBug(name: string): name is PlantedBug {
  return Object.hasOwn(PLANTED_BUGS, name);
}

const BUGS = Object.keys(PLANTED_BUGS)
  .filter(isPlantedBug)
  .filter((bug) => !VARIANTS.includes(bug));

const isOfBackups = (bug: PlantedBug): boolean => /import|export/.test(bug);

export const BACKUP_BUGS: readonly PlantedBug[] = BUGS.filter(isOfBackups);
export const OTHER_BUGS: readonly PlantedBug[] = BUGS.filter((bug) => !isOfBackups(bug));
