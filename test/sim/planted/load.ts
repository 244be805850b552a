/**
 * The simulation as a module in which bugs can be planted. Import nothing of src/ before it: what is loaded already has
 * no switch.
 */
import { register } from 'node:module';
import type * as simulation from '../simulation.ts';

export async function loadSimulation(): Promise<typeof simulation> {
  register('./hooks.js', import.meta.url);
  return await import('../simulation.ts');
}
