import type { PlantedBug } from './planted-bugs.ts';

/**
 * True while the named bug is switched on. The shipped build has no switch: here it is a constant, and calling it costs
 * less than 0.1 ns. The simulator loads test/sim/planted/switch.ts in place of this module.
 */
export const planted = (_bug: PlantedBug): boolean => false;
