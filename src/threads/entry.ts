/**
 * Where the code of a thread is: in the bundle, which a thread loads in half the time,
 * or in `workers` when run from TypeScript.
 */
export function threadEntry(name: 'checkpoint' | 'export' | 'json' | 'pool' | 'salvage' | 'shard' | 'verify'): URL {
  if (import.meta.url.endsWith('/threads/entry.ts')) return new URL(`../../workers/${name}.ts`, import.meta.url);
  // scripts/bundle.mjs says why this one is CommonJS.
  const file = `${name}.${name === 'shard' ? 'cjs' : 'js'}`;
  const isBundled = !import.meta.url.endsWith('/threads/entry.js');
  return new URL(isBundled ? `./${file}` : `../../bundle/${file}`, import.meta.url);
}
