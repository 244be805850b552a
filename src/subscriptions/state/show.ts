/** A subscription as clients see it. */
import { formatOffset } from '../../protocol/header-values.ts';
import { type TailOf, isPending } from './decide.ts';
import type { Subscription } from './subscription.ts';

type Json = Readonly<Record<string, unknown>>;

/** Location of the public keys. */
export interface Signing {
  readonly alg: 'ed25519';
  readonly kid: string;
  readonly jwks_url: string;
}

export function showSubscription(sub: Subscription, signing: Signing, createdAt: string): Json {
  const { config } = sub;
  return {
    id: sub.id,
    subscription_id: sub.id,
    type: config.type,
    pattern: config.pattern,
    streams: [...sub.links].map(([path, link]) => ({
      path,
      link_type: link.explicit ? 'explicit' : 'glob',
      acked_offset: formatOffset(link.acked),
    })),
    webhook: config.url === null ? null : { url: config.url, signing },
    wake_stream: config.wake_stream,
    lease_ttl_ms: config.lease_ttl_ms,
    created_at: createdAt,
    status: sub.failures > 0 ? 'failed' : 'active',
    ...(config.description === null ? {} : { description: config.description }),
  };
}

/** The streams when a wake was issued: exactly what {"done":true} acknowledges. */
export function showIssued(sub: Subscription): Json[] {
  const issued = new Map((sub.wake?.tails ?? []).map(([path, , offset]) => [path, offset]));
  return showStreams(sub, (path) => issued.get(path));
}

/** The streams at present. */
export function showPresent(sub: Subscription, tailOf: TailOf): Json[] {
  return showStreams(sub, (path) => {
    const tail = tailOf(path);
    return isPending(sub, path, tail) ? tail.offset : undefined;
  });
}

function showStreams(sub: Subscription, pendingTail: (path: string) => number | undefined): Json[] {
  return [...sub.links].map(([path, link]) => {
    const tail = Math.max(link.acked, pendingTail(path) ?? 0);
    return {
      path,
      link_type: link.explicit ? 'explicit' : 'glob',
      acked_offset: formatOffset(link.acked),
      tail_offset: formatOffset(tail),
      has_pending: tail > link.acked,
    };
  });
}
