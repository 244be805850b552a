/**
 * Records of the subscription log: a JSON stream that clients cannot reach. Every node appends its commands there and
 * folds what it reads (machine.ts), so the place in the log decides which of two commands came first, and its outcome
 * is the same on all nodes. A record unknown to this version changes nothing.
 */
import type { SigningKey } from './signing-keys.ts';
import type { SubscriptionConfig, LinkPosition, SavedSubscription } from './subscription.ts';

/** The internal stream with the subscription log. Clients cannot name or list it (http/routes/client-routes.ts). */
export const LOG = { bucket: '__ds', stream: 'log' } as const;

interface About {
  readonly id: string;
  /** Wall clock of the requesting node, in ms. */
  readonly at: number;
}

/** A command about one wake: rejected unless that wake is still running. */
interface AboutWake extends About {
  readonly wake: string;
}

export type SubscriptionCommand =
  | ({
      readonly op: 'create';
      readonly config: SubscriptionConfig;
      readonly hash: string;
      readonly base: string;
    } & About & {
        readonly links: readonly LinkPosition[];
      })
  | ({ readonly op: 'delete' } & About)
  /** Explicit streams, at their tails. */
  | ({ readonly op: 'add'; readonly links: readonly LinkPosition[] } & About)
  | ({ readonly op: 'remove'; readonly path: string } & About)
  /** Streams that the pattern matches. */
  | ({ readonly op: 'link'; readonly links: readonly LinkPosition[] } & About)
  /** The stream of that incarnation no longer exists, or is another one now. */
  | ({ readonly op: 'gone'; readonly path: string; readonly incarnation: number } & About)
  /** The stream ends before its cursor: it was restored from an earlier time than the subscription. */
  | ({ readonly op: 'rewind'; readonly path: string; readonly incarnation: number; readonly offset: number } & About)
  | ({ readonly op: 'wake'; readonly generation: number; readonly tails: readonly LinkPosition[] } & AboutWake)
  | ({ readonly op: 'delivered' } & AboutWake)
  /** `next`: no attempt before this time. */
  | ({ readonly op: 'failed'; readonly next: number } & AboutWake)
  /** The webhook answered {"done":true}. */
  | ({ readonly op: 'done' } & AboutWake)
  /** The lease that ended at `until` is over; `next` as in failed, -1 when it cut off no attempt. */
  | ({ readonly op: 'expire'; readonly until: number; readonly next: number } & AboutWake)
  /** `wake` and `tails`: of the wake that the claim itself becomes when none is running. */
  | ({ readonly op: 'claim'; readonly worker: string; readonly tails: readonly LinkPosition[] } & AboutWake)
  | ({
      readonly op: 'ack';
      readonly generation: number;
      readonly acks: readonly LinkPosition[];
      readonly done: boolean;
    } & AboutWake)
  | ({ readonly op: 'release'; readonly generation: number } & AboutWake)
  /** The first one counts. */
  | ({ readonly op: 'key' } & SavedKey)
  /** Another signing key; the secret stays. */
  | ({ readonly op: 'rotate'; readonly at: number } & SigningKey)
  | { readonly op: 'checkpoint' }
  | { readonly op: 'state'; readonly saved: SavedSubscription }
  | { readonly op: 'checkpoint-end' };

/** The cluster's key pair for webhook signatures and its secret for tokens. */
export interface SavedKey {
  /** Thumbprint of the public key. */
  readonly kid: string;
  /** Public key, base64url. */
  readonly x: string;
  /** Private key, base64url; empty: the nodes have it from a file. */
  readonly d: string;
  /** For tokens, base64url. */
  readonly secret: string;
}

/** `by` identifies the request, so that the appending node finds its outcome. */
export type LogRecord = SubscriptionCommand & { readonly by?: string };

/** The outcome of a command. */
export type OutcomeCode =
  | 'OK'
  | 'CREATED'
  | 'SUBSCRIPTION_ALREADY_EXISTS'
  | 'SUBSCRIPTION_NOT_FOUND'
  | 'FENCED'
  | 'ALREADY_CLAIMED'
  | 'NO_PENDING_WORK'
  | 'INVALID_OFFSET'
  | 'LIMIT_EXCEEDED'
  /** Nothing changed, and no caller waits for an answer: another record came first. */
  | 'IGNORED';

export interface Outcome {
  readonly code: OutcomeCode;
  /** For the client. */
  readonly message?: string;
}
