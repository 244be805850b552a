/**
 * What every operation declares about itself, beside its request and its result. An operation is what the HTTP side asks of a
 * shard: a command, which is replicated and applied, or a query, which is answered from applied state. The table of all of them is
 * operations.ts; dispatch, forwarding and admission derive from it.
 */
import type { Reply } from './reply.ts';

/** Numbers below are commands: the first byte of a frame tells the two apart. */
export const FIRST_QUERY_NUMBER = 32;

/** What stands in the payload of a command. */
export type Body =
  /** Nothing, or parameters that our own code wrote. */
  | 'none'
  /** A client's body: one message, or records when it is JSON. */
  | 'message'
  /** Several of them, as frames (append-batch.ts). */
  | 'frames';

/** What the answer of an operation says, and how it stands in the frame. */
export interface ResultCodec<Written, Read = Written> {
  write(reply: Reply, result: Written): void;
  read(reply: Reply): Read;
}

/** The code says it all, or its fields have the same names for all operations. */
export const NO_RESULT: ResultCodec<undefined> = { write: () => undefined, read: () => undefined };

/** Any of them: for what treats all operations alike. */
export interface AnyResultCodec {
  write(reply: Reply, result: never): void;
  read(reply: Reply): unknown;
}

export interface CommandTraits {
  /** In logs: never reused, never changed. Below KIND_CONDITIONAL. */
  readonly number: number;
  /** A node may send it to the leader of another node for its clients. Never one that only a leader may propose. */
  readonly forwardable: boolean;
  /** Its payload becomes hot bytes, so the bounds on what a leader takes in apply. */
  readonly wouldAddBytes: boolean;
  /** Less is stored after it: let through on a full disk. */
  readonly freesSpace: boolean;
  readonly body: Body;
  /** An empty JSON array is a body without records; elsewhere it is refused. */
  readonly mayBringNoRecords: boolean;
  /** `counted`: refused when its bucket is over its quota. `changes`: after it the quota is another one. */
  readonly quota: 'counted' | 'changes' | 'none';
  /** Takes one of the streams that a quota allows. */
  readonly createsStream: boolean;
  /** Brings a backup into a group, which serves nothing else meanwhile. */
  readonly isImport: boolean;
  /** For parameters that the state machine trusts: throws when a peer sent anything else. */
  readonly checkForwarded?: (payload: Uint8Array) => void;
  readonly result: AnyResultCodec;
}

/** Who answers a query, and when. */
export type QueryScope =
  /** The group, once it has caught up: about one stream, or about the group itself. */
  | 'stream'
  | 'group'
  /** The shard, for all of its groups, once they have caught up. */
  | 'shard'
  /** The shard at once, whatever its groups have applied. */
  | 'control';

export interface QueryTraits {
  readonly number: number;
  readonly scope: QueryScope;
  /**
   * What the answer leaves out is taken for missing, so every leader confirms that this node has applied all it should. Streams
   * are confirmed one by one, when they are missing.
   */
  readonly needsLeaders: boolean;
  /** Answered while a backup comes into a group. */
  readonly duringImport: boolean;
  readonly result: AnyResultCodec;
}

/** Keeps the literal types of a declaration, from which the table derives its unions. */
export function command<const T extends CommandTraits>(traits: T): T {
  return traits;
}

export function query<const T extends QueryTraits>(traits: T): T {
  return traits;
}
