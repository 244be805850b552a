/** A subscription: its configuration, its cursors, and its current wake. */
import { Glob } from '../../base/glob.ts';

/** As requested by the client, normalised: equal configurations are equal texts. */
export interface SubscriptionConfig {
  readonly type: 'webhook' | 'pull-wake';
  readonly pattern: string | null;
  /** Explicit streams at its creation, sorted, each once. */
  readonly streams: readonly string[];
  readonly url: string | null;
  readonly wake_stream: string | null;
  readonly lease_ttl_ms: number;
  readonly description: string | null;
}

/** The cursor of one stream. */
export interface Link {
  /** Incarnation that `acked` belongs to; 0: the stream did not exist when it was linked. */
  incarnation: number;
  /** Everything before it is processed. */
  acked: number;
  /** Named by a client; otherwise matched by the pattern alone. */
  explicit: boolean;
}

/** One wake: from its issue until it is done, released or expired. */
export interface Wake {
  readonly id: string;
  /** Streams with pending events and their tails when it was issued; what a webhook's {"done":true} acknowledges. */
  readonly tails: readonly LinkPosition[];
  /** The webhook accepted it, or the wake stream has its event. */
  delivered: boolean;
}

/** A position in a stream; incarnation 0: it does not exist. */
export type LinkPosition = readonly [path: string, incarnation: number, offset: number];

export class Subscription {
  readonly id: string;
  readonly config: SubscriptionConfig;
  /** Hash of the configuration, compared with that of a second creation. */
  readonly hash: string;
  readonly createdAtMs: number;
  /** Scheme and authority under which receivers call back. */
  readonly base: string;
  readonly glob: Glob | undefined;
  readonly links = new Map<string, Link>();
  generation = 0;
  wake: Wake | undefined = undefined;
  /** The worker that holds the lease; webhooks have none. */
  holder: string | undefined = undefined;
  /** -1: no lease runs. */
  leaseUntilMs = -1;
  /** Consecutive failed deliveries. */
  failures = 0;
  /** No attempt before this time; -1: none is scheduled. */
  nextAttemptAtMs = -1;

  constructor(id: string, config: SubscriptionConfig, hash: string, createdAtMs: number, base: string) {
    this.id = id;
    this.config = config;
    this.hash = hash;
    this.createdAtMs = createdAtMs;
    this.base = base;
    this.glob = config.pattern === null ? undefined : new Glob(config.pattern);
  }

  get isWebhook(): boolean {
    return this.config.type === 'webhook';
  }

  /** Whether its pattern would link the stream. Its own wake stream never matches: each wake would cause the next. */
  matches(path: string): boolean {
    return path !== this.config.wake_stream && this.glob?.matches(path) === true;
  }
}

/** The subscription as one line of a checkpoint. */
export type SavedSubscription = Readonly<ReturnType<typeof save>>;

export function save(sub: Subscription) {
  return {
    id: sub.id,
    config: sub.config,
    hash: sub.hash,
    at: sub.createdAtMs,
    base: sub.base,
    links: [...sub.links].map(([path, link]) => [path, link.incarnation, link.acked, link.explicit ? 1 : 0] as const),
    generation: sub.generation,
    wake: sub.wake ?? null,
    holder: sub.holder ?? null,
    lease: sub.leaseUntilMs,
    failures: sub.failures,
    next: sub.nextAttemptAtMs,
  };
}

export function restore(saved: SavedSubscription): Subscription {
  const sub = new Subscription(saved.id, saved.config, saved.hash, saved.at, saved.base);
  for (const [path, incarnation, acked, explicit] of saved.links) {
    sub.links.set(path, { incarnation, acked, explicit: explicit === 1 });
  }
  sub.generation = saved.generation;
  sub.wake = saved.wake === null ? undefined : { ...saved.wake };
  sub.holder = saved.holder ?? undefined;
  sub.leaseUntilMs = saved.lease;
  sub.failures = saved.failures;
  sub.nextAttemptAtMs = saved.next;
  return sub;
}
