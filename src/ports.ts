/** Interfaces between the folders that must not import each other. src/server and workers/ wire them. */
import type { Reply } from './protocol/reply.ts';
import type { Request } from './protocol/request.ts';
import type { Stage } from './protocol/stage.ts';
import type { ForkGone } from './protocol/fork-gone.ts';

/** Receives what went wrong inside a handler: a bug, never a client's mistake; whose request it was, or undefined. */
export type ErrorLog = (error: unknown, what: string, requestId: string | undefined) => void;

/** Gets the answer to one request. */
export interface ReplyHandler {
  /**
   * Called exactly once, never inside send(). `reply` is reused: read what is needed before returning. Also called,
   * with code STOPPING, for everything still unanswered when the server stops.
   */
  onReply(reply: Reply): void;
  /** Identifies the client's request that it answers, in log lines. */
  readonly requestId?: string | undefined;
}

/** Gets the tail events of one watched stream. */
export interface TailHandler {
  /** In commit order. After a reply with REPLY_DELETED, or REPLY_CLOSED, no more events come. */
  onTail(reply: Reply): void;
}

/** The HTTP side's view of the shards. */
export interface ShardGateway {
  readonly groupCount: number;
  readonly shardCount: number;
  /** Group of a stream. */
  groupOf(bucket: string, stream: string): number;
  /**
   * Sends one request to the shard that owns `request.group`, or for ALL_GROUPS to shard `shard`. Copies everything it
   * needs; the request object may be reused at once. False: the mailbox is full, answer 503 SHARD_BUSY; the handler is
   * not called.
   */
  send(request: Request, handler: ReplyHandler, shard?: number): boolean;
  /** A new topic number for `request.topic` of a READ; events go to `handler` from then on. */
  openTopic(handler: TailHandler): number;
  /** Ends a topic: no more events, and the shard forgets it. Harmless when it is over already. */
  closeTopic(topic: number, group: number): void;
}

/** Takes writes that quotas count or that change one (gateway/quota-gate.ts). Others may go to shards directly. */
export interface WriteGateway extends Pick<ShardGateway, 'groupCount' | 'send'> {
  /** The quota of each bucket that has none of its own; undefined: nothing here counts. */
  readonly defaultQuota?: { readonly streamsMax: number; readonly bytesMax: number };
}

/** The fork that the headers of a PUT ask for. */
export interface ForkRequest {
  readonly bucket: string;
  readonly stream: string;
  /** Offset of the source; -1: its tail. */
  readonly offset: number;
  readonly subOffset: number;
}

/** Makes forks, and tells sources when they are gone (forks/service/). */
export interface Forks {
  /**
   * `request` is a CREATE; copies what it needs. The handler gets the answer to it, read as that of
   * a forkEnd. False: too many are being made.
   */
  create(request: Request, fork: ForkRequest, handler: ReplyHandler): boolean;
  /** A fork of `group` is gone, and its source is to be told; `done` is called when it was, or could not be. */
  tell(group: number, gone: ForkGone, done: () => void): void;
}

export type TraceAttributes = Readonly<Record<string, string | number>>;

/** Follows single requests for operators (tracing/). */
export interface RequestTraces {
  /** `traceparent`: as it was sent, '' without one. Undefined: this request is not followed. */
  begin(traceparent: string): RequestTrace | undefined;
}

/** A request that is followed. */
export interface RequestTrace {
  /** A shard was asked. */
  asked(attributes: TraceAttributes): void;
  /** It has answered. `stages`: what it says of its part. */
  answered(attributes: TraceAttributes, stages: readonly Stage[]): void;
  /** The request is over; nothing follows. */
  end(summary: TraceSummary): void;
}

export interface TraceSummary {
  readonly name: string;
  readonly attributes: TraceAttributes;
  /** By a fault of the node, not of the client. */
  readonly isFailed: boolean;
}
