/** The next action for a subscription on the node that drives it. Pure: the same for every node that drives it. */
import type { LinkPosition, Subscription } from './subscription.ts';

/** The tail of a stream as this node knows it; incarnation 0: it does not exist. */
export interface StreamTail {
  readonly incarnation: number;
  readonly offset: number;
}

export type TailOf = (path: string) => StreamTail | undefined;

export type Step =
  /** Until something changes. */
  | { readonly do: 'rest' }
  | { readonly do: 'wait'; readonly untilMs: number }
  | { readonly do: 'wake'; readonly tails: readonly LinkPosition[] }
  /** The webhook, or the event in the wake stream. */
  | { readonly do: 'deliver'; readonly expiresAtMs: number }
  | { readonly do: 'expire' };

const REST: Step = { do: 'rest' };
/** Maximum clock difference of nodes; a lease that ends later came from a wrong clock. */
const CLOCKS_APART_MS = 300_000;

/** `at-once`: an operator does not wait for the pause behind a failure to end. */
export type Pace = 'as-planned' | 'at-once';

export function decide(sub: Subscription, tailOf: TailOf, nowMs: number, pace: Pace = 'as-planned'): Step {
  const { wake, leaseUntilMs } = sub;
  // Further away than any pause, so the clock was ahead when it was recorded. Waiting until then would take too long.
  const isFarAway = sub.nextAttemptAtMs > nowMs + 2 * RETRY_MAX_MS;
  const nextAttemptAtMs = isFarAway || pace === 'at-once' ? -1 : sub.nextAttemptAtMs;
  if (wake === undefined) {
    const tails = pendingTails(sub, tailOf);
    if (tails.length === 0) return REST;
    // A receiver that failed gets the next wake no sooner than a retry of this one.
    if (nowMs < nextAttemptAtMs) return { do: 'wait', untilMs: nextAttemptAtMs };
    return { do: 'wake', tails };
  }
  if (
    leaseUntilMs >= 0 &&
    (nowMs >= leaseUntilMs || leaseUntilMs > nowMs + sub.config.lease_ttl_ms + CLOCKS_APART_MS)
  ) {
    return { do: 'expire' };
  }
  const leaseEndsMs = leaseUntilMs >= 0 ? leaseUntilMs : Infinity;
  if (!wake.delivered) {
    if (nowMs >= nextAttemptAtMs) return { do: 'deliver', expiresAtMs: leaseEndsMs };
    return { do: 'wait', untilMs: Math.min(nextAttemptAtMs, leaseEndsMs) };
  }
  return leaseEndsMs === Infinity ? REST : { do: 'wait', untilMs: leaseEndsMs };
}

/** Streams with events after their cursors. */
export function pendingTails(sub: Subscription, tailOf: TailOf): LinkPosition[] {
  const tails: LinkPosition[] = [];
  for (const path of sub.links.keys()) {
    const tail = tailOf(path);
    if (isPending(sub, path, tail)) tails.push([path, tail.incarnation, tail.offset]);
  }
  return tails;
}

export function hasPending(sub: Subscription, tailOf: TailOf): boolean {
  return [...sub.links.keys()].some((path) => isPending(sub, path, tailOf(path)));
}

/** A cursor of another incarnation of the stream is meaningless; `gone` resets it to the beginning first. */
export function isPending(sub: Subscription, path: string, tail: StreamTail | undefined): tail is StreamTail {
  const link = sub.links.get(path);
  if (link === undefined || tail === undefined || tail.incarnation === 0) return false;
  return (link.incarnation === 0 || link.incarnation === tail.incarnation) && tail.offset > link.acked;
}

const RETRY_FIRST_MS = 1000;
const RETRY_MAX_MS = 60_000;
const JITTER = 0.2;

/** Delay after the `failures`-th failed attempt in a row; `random` in [0, 1). */
export function retryDelayMs(failures: number, random: number): number {
  const base = Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** Math.min(failures - 1, 16));
  return Math.round(base * (1 + JITTER * (2 * random - 1)));
}
