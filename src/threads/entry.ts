type Thread = 'checkpoint' | 'export' | 'json' | 'pool' | 'salvage' | 'shard' | 'sync' | 'verify';

/** Bundles that are CommonJS; scripts/bundle.mjs says why. */
const COMMON: { readonly [name in Thread]?: string } = {
  checkpoint: 'checkpoint.cjs',
  shard: 'start-shard.cjs',
  sync: 'sync.cjs',
};

/** Where a thread's code is: in the bundle, which loads in half the time, or in `workers` when run from TypeScript. */
export function threadEntry(name: Thread): URL {
  if (import.meta.url.endsWith('/threads/entry.ts')) return new URL(`../../workers/${name}.ts`, import.meta.url);
  const file = COMMON[name] ?? `${name}.js`;
  const isBundled = !import.meta.url.endsWith('/threads/entry.js');
  return new URL(isBundled ? `./${file}` : `../../bundle/${file}`, import.meta.url);
}
