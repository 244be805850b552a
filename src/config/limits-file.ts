/** The file of limits, TOML: of each token, of each bucket, and of single buckets. Whatever is not understood is refused. */
import { type UseLimits, type NodeLimits, isUseLimits, parseUseLimits } from '../base/use-limits.ts';
import { LIMITED_BUCKETS_MAX, SCOPE_NAME_CHARS_MAX } from '../base/limits.ts';
import { isTable } from '../base/scopes.ts';
import { ConfigError } from './error.ts';
import { readToml } from './toml.ts';

/** Throws ConfigError. */
export function readLimitsFile(path: string, label: string): NodeLimits {
  const document = readToml(path, label);
  const fault = (place: string, reason: string): ConfigError => new ConfigError(`${path}: ${place}: ${reason}`);
  const allowanceOf = (raw: unknown, place: string): UseLimits => {
    const parsed = parseUseLimits(raw, place);
    if (isUseLimits(parsed)) return parsed;
    throw fault(parsed.place, parsed.reason);
  };
  const { token = {}, bucket = {}, buckets = {}, ...others } = document;
  for (const key of Object.keys(others)) {
    throw fault(key, 'unknown key; the file has [token], [bucket] and tables such as [buckets.shop]');
  }
  if (!isTable(buckets)) throw fault('buckets', 'expected a table for each bucket, such as [buckets.shop]');
  const names = Object.entries(buckets);
  if (names.length > LIMITED_BUCKETS_MAX) throw fault('buckets', `a file may name ${LIMITED_BUCKETS_MAX} buckets`);
  return {
    token: allowanceOf(token, 'token'),
    bucket: allowanceOf(bucket, 'bucket'),
    buckets: names.map(([name, raw]) => {
      if (name.length > SCOPE_NAME_CHARS_MAX) throw fault('buckets', 'no bucket has so long a name');
      return [name, allowanceOf(raw, `buckets.${name}`)] as const;
    }),
  };
}
