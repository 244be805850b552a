import type { PlantedBug } from './planted-bugs.ts';

/**
 * True while the named bug is switched on. Here it is a constant, so V8 drops every branch that asks when it optimizes: what ships has
 * no switch. The simulator loads test/sim/planted/switch.ts in place of this module.
 */
export const planted = (_bug: PlantedBug): boolean => false;
