import type { PlantedBug } from './planted-bugs.ts';

/**
 * True while the named bug is switched on. What ships has no switch: here it is a constant, and asking costs less than 0.1 ns.
 * The simulator loads test/sim/planted/switch.ts in place of this module.
 */
export const planted = (_bug: PlantedBug): boolean => false;
