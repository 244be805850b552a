type Thread = 'checkpoint' | 'export' | 'json' | 'pool' | 'salvage' | 'shard' | 'sync' | 'verify';

/** scripts/bundle.mjs says why. */
const COMMON: ReadonlySet<Thread> = new Set<Thread>(['checkpoint', 'shard', 'sync']);

/**
 * Where the code of a thread is: in the bundle, which a thread loads in half the time,
 * or in `workers` when run from TypeScript.
 */
export function threadEntry(name: Thread): URL {
  if (import.meta.url.endsWith('/threads/entry.ts')) return new URL(`../../workers/${name}.ts`, import.meta.url);
  const file = `${name}.${COMMON.has(name) ? 'cjs' : 'js'}`;
  const isBundled = !import.meta.url.endsWith('/threads/entry.js');
  return new URL(isBundled ? `./${file}` : `../../bundle/${file}`, import.meta.url);
}
