/** Where the code of a thread is: `workers/NAME`, as TypeScript when run from source, as JavaScript when compiled. */
export function threadEntry(name: 'bodies' | 'checkpoint' | 'export' | 'pool' | 'shard' | 'verify'): URL {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new URL(`../../workers/${name}.${extension}`, import.meta.url);
}
