/**
 * A description tells callers more of a route than its row does (routes/table.ts): its purpose, its
 * parameters, its body, and its answers. The row adds what follows from its traits: path variables, tokens,
 * the bound of the body, the refusals that come before the handler.
 */
import type { ErrorCode } from '../../src/base/errors.ts';
import type { HeaderName } from './headers.ts';
import type { ParameterName } from './parameters.ts';
import type { SchemaName } from './schemas.ts';

/** Sections of the document, in this order. */
export const TAGS = {
  streams: 'Create, append to, read, describe and delete streams. Each operation has two paths with one meaning.',
  attributes: 'A title and metadata of a stream.',
  snapshots: "An application's snapshots of a stream, and the floor below which its bytes are gone.",
  buckets: 'Buckets hold streams and need no creation.',
  subscriptions: 'Durable cursors over many streams, for webhooks and workers.',
  node: 'What a node says of itself.',
  tenants: 'One bucket as a tenant: quota and removal.',
  raft: 'Groups of the cluster: leaders, members, checkpoints.',
  backup: 'Backup and restore of a group.',
} as const;

/** By media type. */
export type Content = Readonly<Record<string, SchemaName>>;

export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers?: readonly HeaderName[];
  /** Absent: no body. */
  readonly content?: Content;
}

/** A refusal that is not in the table of errors, or not with this status. */
export interface OwnRefusal {
  readonly status: number;
  /** As Millrace-Error has it. */
  readonly code: string;
  readonly text: string;
  /** JSON instead of a sentence. */
  readonly content?: Content;
  readonly retry?: true;
}

export type Refusal = ErrorCode | OwnRefusal;

export interface RequestBody {
  readonly text: string;
  readonly content: Content;
  readonly isRequired?: true;
}

export interface Operation {
  /** The name that generated clients use. */
  readonly id: string;
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  readonly text?: string;
  /** Parameters in the query and the headers. */
  readonly parameters?: readonly ParameterName[];
  readonly body?: RequestBody;
  readonly answers: readonly Answer[];
  /** Those of the handler and of the shards. */
  readonly refusals: readonly Refusal[];
  /** In place of what a row with a bound of the body refuses. */
  readonly bodyRefusals?: readonly Refusal[];
  /** HEAD never gets as far as these refusals. */
  readonly headRefusesNothing?: true;
  /** The handler looks at no condition and its row's router refuses none. */
  readonly authorization?: 'wake token';
}

/** Method and path as the document has them: `GET /{bucket}/{stream}`. */
export type Operations = Readonly<Record<string, Operation>>;

// Refusals that come together.

/** The shard of a stream, and the mailbox in front of it. */
const SHARD = ['SHARD_BUSY', 'STOPPING', 'INTERNAL'] as const satisfies readonly ErrorCode[];

/** Whatever becomes an entry of the log. */
export const WRITE = [
  ...SHARD,
  ...(['NO_LEADER', 'LEADER_BUSY', 'OUTCOME_UNKNOWN', 'UNCOMMITTED_FULL', 'GROUP_IMPORTING', 'DISK_FULL'] as const),
] as const satisfies readonly ErrorCode[];

/** A write that counts for the quota of its bucket. */
export const QUOTA = ['QUOTA_EXCEEDED', 'QUOTA_UNKNOWN'] as const satisfies readonly ErrorCode[];

/** A write that makes its stream longer. */
export const GROW = [...WRITE, ...QUOTA, 'BACKPRESSURE'] as const satisfies readonly ErrorCode[];

/** Whatever is answered from the applied state of the node that is asked. */
export const ASK = [
  ...SHARD,
  ...(['NO_LEADER', 'CATCHING_UP', 'UNCONFIRMED', 'NOT_APPLIED', 'GROUP_IMPORTING'] as const),
] as const satisfies readonly ErrorCode[];

/** Whatever may have to look into the cold store. */
export const COLD = [
  'COLD_UNAVAILABLE',
  'COLD_READS_FULL',
  'COLD_OBJECT_BAD',
  'NO_COLD_STORE',
] as const satisfies readonly ErrorCode[];

export const NO_STREAM = ['STREAM_NOT_FOUND', 'STREAM_DELETED'] as const satisfies readonly ErrorCode[];

export const CONDITION = ['PRECONDITION_FAILED', 'UPGRADE_UNFINISHED'] as const satisfies readonly ErrorCode[];

export const PRODUCER = [
  'PRODUCER_INCOMPLETE',
  'PRODUCER_EPOCH_START',
  'PRODUCER_EPOCH_STALE',
  'PRODUCER_SEQ_CONFLICT',
] as const satisfies readonly ErrorCode[];
