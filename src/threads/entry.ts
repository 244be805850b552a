/**
 * Where the code of a thread is: in the bundle, which a thread loads in half the time,
 * or in `workers` when run from TypeScript.
 */
export function threadEntry(name: 'checkpoint' | 'export' | 'json' | 'pool' | 'salvage' | 'shard' | 'verify'): URL {
  const { url } = import.meta;
  if (url.endsWith('/threads/entry.ts')) return new URL(`../../workers/${name}.ts`, url);
  return new URL(url.endsWith('/threads/entry.js') ? `../../bundle/${name}.js` : `./${name}.js`, url);
}
