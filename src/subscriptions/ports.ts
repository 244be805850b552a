/**
 * Subscriptions offer to the HTTP side the reserved routes as values, and the keys of webhooks for the admin
 * plane.
 */

/** The rights of a sender whose token has scopes. */
export interface ControlRights {
  /** Whether it may follow all that the pattern can match, and these streams. Of a pattern and streams that are none: no. */
  follows(pattern: string | null, paths: readonly string[]): boolean;
  /** Whether it may append to the stream of this path. */
  appends(path: string): boolean;
  /** It makes one more beside all that there are, by id, until `made` is called. A sentence: why it may not. */
  makesOneMore(id: string, all: ReadonlyMap<string, Followed>): string | { readonly made: () => void };
}

/** All that a subscription was made to follow. */
export interface Followed {
  readonly config: { readonly pattern: string | null; readonly streams: readonly string[] };
}

/** A request without its body. */
export interface ControlHead {
  /** The HTTP method in lower case; HEAD comes as get. */
  readonly method: string;
  /** Below the prefix, as it was sent. */
  readonly path: string;
  /** Empty when there is none. */
  readonly authorization: string;
  /** Scheme and authority that the client used. */
  readonly origin: string;
  /** Undefined: all. */
  readonly rights?: ControlRights | undefined;
}

export interface ControlAnswer {
  readonly status: number;
  /** Undefined: none. */
  readonly json?: unknown;
  readonly contentType?: string;
  /** Any cache may keep it for a while. */
  readonly cache?: 'public';
  /** Allowed methods of a 405. */
  readonly allow?: string;
  /** The same request may succeed later. */
  readonly retry?: boolean;
}

/** A request with a valid header. */
export interface ControlTask {
  /** Its token is unverified: this node cannot tell yet. */
  readonly fromStranger?: boolean;
  /** `body`: the task's own; empty for GET. */
  run(body: Uint8Array<ArrayBuffer>): Promise<ControlAnswer>;
}

export interface ControlPort {
  /** The answer that needs no body, or the task that takes it. */
  open(head: ControlHead): ControlAnswer | ControlTask;
  /** The answer for an exception of open() or run() that is a refusal; others are bugs. */
  refusal(error: unknown): ControlAnswer | undefined;
}

/** `replace-all`: the new key signs at once, and earlier ones are no longer shown. */
export type KeyRotation = 'add' | 'replace-all';

export interface WebhookKeys {
  show(): Promise<unknown>;
  /** A string is the reason for a refusal. */
  rotate(how: KeyRotation): Promise<unknown>;
}

/** A subscription as operators see it: where it stands, as this node has folded it. */
export interface InspectedSubscription {
  readonly id: string;
  readonly type: 'webhook' | 'pull-wake';
  /** The webhook's URL, or the wake stream. */
  readonly target: string | null;
  readonly pattern: string | null;
  readonly streams: number;
  readonly has_pending: boolean;
  readonly generation: number;
  readonly wake_under_way: boolean;
  /** The receiver has accepted the wake, or the wake stream has it. */
  readonly delivered: boolean;
  readonly holder: string | null;
  readonly lease_until_ms: number | null;
  readonly failures: number;
  readonly next_attempt_at_ms: number | null;
  /** Only the node that delivers knows it. */
  readonly last_error: string | null;
}

export interface InspectedPage {
  /** This node delivers. */
  readonly driving: boolean;
  readonly subscriptions: readonly InspectedSubscription[];
  /** Goes into `after`; null: this is the last page. */
  readonly next_cursor: string | null;
}

export interface Inspection {
  /** By id, those behind `after`. */
  list(after: string, limit: number): InspectedPage;
  /** Tries a delivery that failed again now, and not when its pause is over. */
  deliver(id: string): 'trying' | 'not-found' | 'not-waiting' | 'not-driving';
}
