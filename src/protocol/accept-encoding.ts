/**
 * Accept-Encoding says how a client likes gzip (RFC 9110, 12.5.3). A coding that is not listed has the
 * weight of `*`; without `*` it is not taken. The bytes as they are need no entry: unlisted they are
 * the last choice, listed they win when gzip weighs no more.
 */
const GZIP: ReadonlySet<string> = new Set(['gzip', 'x-gzip']);
const WEIGHT = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/;

export function prefersGzip(acceptEncoding: string): boolean {
  if (acceptEncoding === '') return false;
  let gzip: number | undefined;
  let identity: number | undefined;
  let other: number | undefined;
  for (const item of acceptEncoding.toLowerCase().split(',')) {
    const [name = '', ...parameters] = item.split(';').map((part) => part.trim());
    const weight = weightOf(parameters);
    if (GZIP.has(name)) gzip ??= weight;
    else if (name === 'identity') identity ??= weight;
    else if (name === '*') other ??= weight;
  }
  return (gzip ?? other ?? 0) > (identity ?? 0);
}

/** A malformed weight counts as 0: uncompressed bytes suit every client. */
function weightOf(parameters: readonly string[]): number {
  const [weight, ...more] = parameters;
  if (weight === undefined) return 1;
  const digits = more.length === 0 ? WEIGHT.exec(weight)?.[1] : undefined;
  return digits === undefined ? 0 : Number(digits);
}
