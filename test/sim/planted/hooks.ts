/** Module hooks of the simulator: code that asks for src/base/planted.ts gets the switch beside this file. Runs on a thread of its own. */
import type { ResolveHook } from 'node:module';

const SHIPPED = new URL('../../../src/base/planted.js', import.meta.url).href;
const SWITCH = new URL('./switch.js', import.meta.url).href;

export const resolve: ResolveHook = async (specifier, context, next) => {
  const resolved = await next(specifier, context);
  return resolved.url === SHIPPED ? { ...resolved, url: SWITCH } : resolved;
};
