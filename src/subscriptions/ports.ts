/**
 * What subscriptions offer to the HTTP side: the reserved routes as values, and the keys of webhooks for the admin
 * plane.
 */

/** A request without its body. */
export interface ControlHead {
  /** In lower case; HEAD comes as get. */
  readonly method: string;
  /** Below the prefix, as it was sent. */
  readonly path: string;
  /** Empty when there is none. */
  readonly authorization: string;
  /** Scheme and authority that the client used. */
  readonly origin: string;
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

/** The signing keys of webhooks. */
/** `replace-all`: the new key signs at once, and earlier ones are no longer shown. */
export type KeyRotation = 'add' | 'replace-all';

export interface WebhookKeys {
  show(): Promise<unknown>;
  /** A string is the reason for a refusal. */
  rotate(how: KeyRotation): Promise<unknown>;
}
