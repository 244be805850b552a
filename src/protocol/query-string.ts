/**
 * Query strings. Pairs are split at `&`, names from values at the first `=`; values are percent-decoded once (client
 * libraries encode offsets), `+` stays a plus. Unknown names are ignored; of a repeated name the last counts, but a
 * second `offset` is refused, because the two could only mean different things.
 */
import { LIST_LIMIT_MAX } from '../base/limits.ts';
import { decodeUrlPart, parseUint53 } from './header-values.ts';

/** A query or body that was understood, or the sentence for the 400. */
export type QueryResult<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly reason: string };

export const fail = (reason: string): { readonly ok: false; readonly reason: string } => ({ ok: false, reason });

/** These names may be given once. Of any other name that is repeated the last value counts. */
const ONCE: ReadonlySet<string> = new Set([
  'offset',
  // voters=1&voters=2&voters=3 is not what voters=3 means.
  'voters',
  'addr',
  'upto',
  'adopt',
]);

/** The wanted names and their decoded values. */
export function collect(query: string, wanted: ReadonlySet<string>): QueryResult<Map<string, string>> {
  const values = new Map<string, string>();
  for (const pair of query.split('&')) {
    const equals = pair.indexOf('=');
    const name = equals < 0 ? pair : pair.slice(0, equals);
    if (!wanted.has(name)) continue;
    if (ONCE.has(name) && values.has(name)) return fail(`${name} is given more than once`);
    const value = decodeUrlPart(equals < 0 ? '' : pair.slice(equals + 1));
    if (value === undefined) return fail(`the percent-encoding of ${name} is malformed or not UTF-8`);
    values.set(name, value);
  }
  return { ok: true, value: values };
}

/** 0 when absent. */
export function parsePositive(text: string | undefined, name: string): QueryResult<number> {
  if (text === undefined) return { ok: true, value: 0 };
  const parsed = parseUint53(text, name);
  if (!parsed.ok) return fail(parsed.reason);
  return parsed.value === 0 ? fail(`${name} must be at least 1`) : { ok: true, value: parsed.value };
}

export interface ListQuery {
  readonly prefix: string;
  readonly after: string;
  readonly limit: number;
}

const LIST_NAMES: ReadonlySet<string> = new Set(['prefix', 'after', 'limit']);

/** Query of GET /{bucket}/streams. */
export function parseListQuery(query: string | undefined): QueryResult<ListQuery> {
  const collected = collect(query ?? '', LIST_NAMES);
  if (!collected.ok) return collected;
  const limit = parsePositive(collected.value.get('limit'), 'limit');
  if (!limit.ok) return limit;
  if (limit.value > LIST_LIMIT_MAX) return fail(`limit must be at most ${LIST_LIMIT_MAX}`);
  const prefix = collected.value.get('prefix') ?? '';
  const after = collected.value.get('after') ?? '';
  if (prefix.includes('\0') || after.includes('\0')) return fail('prefix and after must not hold NUL');
  // Both are compared with names, and no name is longer; the frame counts their bytes in 16 bits.
  if (prefix.length > 1024 || after.length > 1024) return fail('prefix and after are limited to 1024 characters');
  return { ok: true, value: { prefix, after, limit: limit.value === 0 ? LIST_LIMIT_MAX : limit.value } };
}
