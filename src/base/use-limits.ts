/**
 * How much a token or a bucket may use of a node, as files and claims write it, and the reading of that from outside.
 * The counting is in access/meter.ts.
 */

import { SUBSCRIPTIONS_MAX } from './limits.ts';

/** Undefined members: no bound. */
export interface UseLimits {
  readonly requests_per_second?: number;
  /** Bodies of requests and of answers. */
  readonly bytes_per_second?: number;
  /** Long-polls, event streams, and streams that sessions follow. */
  readonly live_readers?: number;
  /** Subscriptions that follow nothing but what the token may. Buckets have no such limit. */
  readonly subscriptions?: number;
}

export type LimitName = keyof UseLimits;

/** The limits of a node, and of those that have none of their own. Plain data. */
export interface NodeLimits {
  /** Each token that has scopes. */
  readonly token: UseLimits;
  /** Each bucket. */
  readonly bucket: UseLimits;
  /** Single buckets, whose limits stand in place of those above. */
  readonly buckets: readonly (readonly [name: string, allowance: UseLimits])[];
  /** Each bucket without a quota of its own. */
  readonly quota: DefaultQuota;
}

/** -1: no bound. */
export interface DefaultQuota {
  readonly streamsMax: number;
  readonly bytesMax: number;
}

export const NO_QUOTA: DefaultQuota = { streamsMax: -1, bytesMax: -1 };
export const NO_LIMITS: NodeLimits = { token: {}, bucket: {}, buckets: [], quota: NO_QUOTA };

/** More than a node can do: a larger number is a slip of the key. */
const MOST: Readonly<Record<LimitName, number>> = {
  requests_per_second: 1e9,
  bytes_per_second: 2 ** 40,
  live_readers: 1e7,
  subscriptions: SUBSCRIPTIONS_MAX,
};

/** `place`: where in the value, such as `limits.live_readers`. */
export interface UseLimitsFault {
  readonly place: string;
  readonly reason: string;
}

/** Whatever is not understood is refused, so that no misspelling lifts a limit. */
export function parseUseLimits(raw: unknown, place: string): UseLimits | UseLimitsFault {
  const names = Object.keys(MOST).join(', ');
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw))
    return { place, reason: `expected a table with ${names}` };
  const allowance: { [K in LimitName]?: number } = {};
  for (const [key, value] of Object.entries<unknown>({ ...raw })) {
    const name = nameOf(key);
    if (name === undefined) return { place: `${place}.${key.slice(0, 64)}`, reason: `unknown key; there are ${names}` };
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > MOST[name]) {
      return { place: `${place}.${name}`, reason: `expected a whole number from 1 to ${MOST[name]}` };
    }
    allowance[name] = value;
  }
  return allowance;
}

export function isUseLimits(parsed: UseLimits | UseLimitsFault): parsed is UseLimits {
  return !('reason' in parsed);
}

function nameOf(key: string): LimitName | undefined {
  return Object.hasOwn(MOST, key) ? (key as LimitName) : undefined;
}
