/** What subscriptions offer to the HTTP side: the reserved routes as values, and the keys of webhooks for the admin plane. */

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
  /** Anybody may keep it for a while. */
  readonly cache?: 'public';
  /** Methods, of a 405. */
  readonly allow?: string;
  /** The same request may succeed later. */
  readonly retry?: boolean;
}

/** A request whose head is right. */
export interface ControlTask {
  /** Its token may be anybody's: this node cannot tell yet. */
  readonly fromStranger?: boolean;
  /** `body`: the task's own; empty for GET. */
  run(body: Uint8Array<ArrayBuffer>): Promise<ControlAnswer>;
}

export interface ControlPort {
  /** What can be said before the body, or who takes it. */
  open(head: ControlHead): ControlAnswer | ControlTask;
  /** An exception of open() or run() that is a refusal; others are bugs. */
  refusal(error: unknown): ControlAnswer | undefined;
}

/** The keys that webhooks are signed with. */
export interface WebhookKeys {
  show(): Promise<unknown>;
  /** `alone`: at once, and those before it are shown no more. A string says why not. */
  rotate(alone: boolean): Promise<unknown>;
}
