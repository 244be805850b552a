/**
 * Module hooks of the simulator: imports of src/base/planted.ts get the switch in this folder. Runs on a separate
 * thread.
 */
import type { ResolveHook } from 'node:module';

const SHIPPED = new URL('../../../src/base/planted.js', import.meta.url).href;
const SWITCH = new URL('./switch.js', import.meta.url).href;

export const resolve: ResolveHook = async (specifier, context, next) => {
  const resolved = await next(specifier, context);
  return resolved.url === SHIPPED ? { ...resolved, url: SWITCH } : resolved;
};
