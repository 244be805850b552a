/**
 * Where the code of a thread is: in a bundle beside all other code of the bundle, else in `workers`, as TypeScript when run from source, as
 * JavaScript when compiled.
 */
export function threadEntry(name: 'bodies' | 'checkpoint' | 'export' | 'pool' | 'shard' | 'verify'): URL {
  const extension = /\/threads\/entry\.([jt]s)$/.exec(import.meta.url)?.[1];
  return new URL(extension === undefined ? `./${name}.js` : `../../workers/${name}.${extension}`, import.meta.url);
}
