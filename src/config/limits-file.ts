/** The file of limits, TOML: of each token, of each bucket, and of single buckets. Whatever is not understood is refused. */
import { type DefaultQuota, type NodeLimits, type UseLimits, isUseLimits, parseUseLimits } from '../base/use-limits.ts';
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
    if (!isUseLimits(parsed)) throw fault(parsed.place, parsed.reason);
    if (place === 'token' || parsed.subscriptions === undefined) return parsed;
    throw fault(`${place}.subscriptions`, 'unknown key; tokens have such a limit, and buckets have none');
  };
  const { token = {}, bucket = {}, buckets = {}, quota = {}, ...others } = document;
  for (const key of Object.keys(others)) {
    throw fault(key, 'unknown key; the file has [token], [bucket], [quota] and tables such as [buckets.shop]');
  }
  if (!isTable(buckets)) throw fault('buckets', 'expected a table for each bucket, such as [buckets.shop]');
  const names = Object.entries(buckets);
  if (names.length > LIMITED_BUCKETS_MAX) throw fault('buckets', `a file may name ${LIMITED_BUCKETS_MAX} buckets`);
  return {
    token: allowanceOf(token, 'token'),
    bucket: allowanceOf(bucket, 'bucket'),
    quota: quotaOf(quota, fault),
    buckets: names.map(([name, raw]) => {
      if (name.length > SCOPE_NAME_CHARS_MAX) throw fault('buckets', 'no bucket has so long a name');
      return [name, allowanceOf(raw, `buckets.${name}`)] as const;
    }),
  };
}

function quotaOf(raw: unknown, fault: (place: string, reason: string) => ConfigError): DefaultQuota {
  if (!isTable(raw)) throw fault('quota', 'expected a table with max_streams and max_retained_bytes');
  const { max_streams: streams, max_retained_bytes: bytes, ...others } = raw;
  for (const key of Object.keys(others)) {
    throw fault(`quota.${key}`, 'unknown key; there are max_streams and max_retained_bytes');
  }
  const boundOf = (bound: unknown, key: string): number => {
    if (bound === undefined) return -1;
    if (typeof bound === 'number' && Number.isSafeInteger(bound) && bound >= 0) return bound;
    throw fault(`quota.${key}`, 'expected a whole number');
  };
  return { streamsMax: boundOf(streams, 'max_streams'), bytesMax: boundOf(bytes, 'max_retained_bytes') };
}
