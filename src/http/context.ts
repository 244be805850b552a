/** The settings, metrics and services of the node that handlers may use. */
import type { Access, PlaneHosts } from '../access/admission.ts';
import type { Connections } from '../access/connections.ts';
import type { LimitBook } from '../access/limit-book.ts';
import type { Senders } from '../access/senders.ts';
import type { TokenBook } from '../access/token-book.ts';
import type { AuditTrail } from '../audit/trail.ts';
import type { OperatorRole, ScopedOperation } from '../base/scopes.ts';
import type { HttpCounters, OperationName } from '../metrics/http-metrics.ts';
import type { ReadRange } from '../protocol/read-fields.ts';
import type { ErrorLog, Forks, RequestTraces, ShardGateway, WriteGateway } from '../ports.ts';

/** The two route families answer some refusals with different statuses. */
export type RouteFamily = 'bucketed' | 'flat';

/** Parsed query of a GET. The range goes into the READ request as it is. */
export interface ReadParams extends ReadRange {
  readonly live: '' | 'long-poll' | 'sse';
  /** Long-poll wait in ms, 1 to 60000; the configured default when not given. */
  readonly timeoutMs: number;
  /** Request cursor; undefined when absent or not a number. */
  readonly cursor: number | undefined;
  /** The reader has been told before that the stream is closed: its browser only came back because the answer ended. */
  readonly sawEnd?: boolean;
  /** A live reader of a stream that is not there waits until it is made, for `timeoutMs` at most. */
  readonly wait?: 'create' | undefined;
  /** The type of an event with bytes: 'data' unless the reader asks for another. */
  readonly event?: EventType | undefined;
  /** Raw If-None-Match, empty when absent. */
  readonly ifNoneMatch: string;
}

/** `message` is what `onmessage` of a browser's EventSource sees. */
export type EventType = 'data' | 'message';

/** Which caches may keep reads. */
export type ReadCaching = 'none' | 'private' | 'public';

/** Configuration values that HTTP code needs. Times in ms, sizes in bytes. */
export interface HttpSettings {
  readonly longPollTimeoutMs: number;
  readonly sseKeepaliveMs: number;
  readonly sseLifetimeMs: number;
  /** Origins whose pages may use the client plane; `*` is any, `loopback` those of this host. */
  readonly corsOrigins: readonly string[];
  readonly clientHosts: PlaneHosts;
  readonly adminHosts: PlaneHosts;
  readonly readCache: ReadCaching;
  readonly inflightBodyBytes: number;
  /** Live readers (long-poll and SSE) waiting per core; 0 = unlimited. */
  readonly watchersPerCoreMax: number;
  /** Empty: no authentication on that plane. */
  readonly clientToken: string;
  readonly adminToken: string;
  /** Tokens of the client plane with scopes; undefined: it has none. */
  readonly clientTokens?: TokenBook | undefined;
  /** Tokens of the admin plane with roles; undefined: it has none. */
  readonly adminTokens?: TokenBook | undefined;
  /** PEM files; undefined: plain HTTP. Both planes alike. */
  readonly tls: { readonly certPath: string; readonly keyPath: string; readonly adminCaPath?: string } | undefined;
}

/**
 * The right that a token with scopes must have: an operation on the stream of the path, on its whole bucket, or on some streams of
 * it, where the handler shows no others. `any`: the route tells nothing about streams, or asks for each of them.
 */
export type Right = 'any' | { readonly on: 'stream' | 'bucket' | 'listing'; readonly operation: ScopedOperation };

/** The traits of a route, beside its path and handler. */
export interface RouteTraits {
  readonly operation: OperationName;
  /** 'token' unless it says otherwise. */
  readonly access?: Access;
  /** Without one tokens with scopes are refused. */
  readonly right?: Right;
  /** On the admin plane: the least role of a token. Without one tokens with roles are refused. */
  readonly role?: OperatorRole;
  /** A link or an event stream reads it, so its token may come in the URL. */
  readonly takesUrlToken?: true;
  /** Largest body that it reads; undefined: none. */
  readonly bodyBytesMax?: number;
  /** For the console's page alone, so the OpenAPI document is silent about it. */
  readonly isForConsole?: true;
  /** It leaves a line in the audit log (audited.ts). */
  readonly isAudited?: boolean;
  /** The path of the route, as in the table of routes. */
  readonly pattern?: string;
}

/** Before a route is found. */
export const NO_ROUTE: RouteTraits = { operation: 'other' };

export interface HttpContext {
  readonly gateway: ShardGateway;
  /** Takes the commands that quotas count, and those that change quotas. */
  readonly writes: WriteGateway;
  /** Whether every node of the cluster knows conditions. An older node stops at a command that has one. */
  understandsConditions(): boolean;
  readonly forks: Forks;
  readonly settings: HttpSettings;
  readonly metrics: HttpCounters;
  /** Milliseconds, monotonic; for durations only. */
  monotonicMs(): number;
  readonly logError: ErrorLog;
  readonly connections: Connections;
  readonly senders: Senders;
  readonly audit: AuditTrail;
  /** Undefined: the client plane has none. */
  readonly limits?: LimitBook;
  /** Begins the ids that this node gives to requests; another one for each run of the node. */
  readonly requestIdPrefix: string;
  /** Undefined: requests are not traced. */
  readonly traces?: RequestTraces;
}
