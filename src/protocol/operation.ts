/**
 * The traits that every operation declares in addition to its request and result. An operation is a request of the HTTP
 * side to a shard: a command, which is replicated and applied, or a query, which is answered from applied state. The
 * table of all of them is operations.ts; dispatch, forwarding and admission derive from it.
 */
import { assert } from '../base/assert.ts';
import { pack, unpack } from './message.ts';
import type { Reply } from './reply.ts';
import type { Query, Request, RequestCodec } from './request.ts';

/** Content of a command's payload. */
export type Body =
  /** Nothing, or parameters that our own code wrote. */
  | 'none'
  /** A client's body: one message, or records when it is JSON. */
  | 'message'
  /** Several of them, as frames (append-batch.ts). */
  | 'frames';

/** The result of an operation, and its encoding in the frame. */
export interface ResultCodec<Written, Read = Written> {
  write(reply: Reply, result: Written): void;
  read(reply: Reply): Read;
}

/** The code says everything, or its fields have the same names for all operations. */
export const NO_RESULT: ResultCodec<undefined> = { write: () => undefined, read: () => undefined };

/** Numbers of a result by the names that the operation gives them. */
export function numbersIn<const Name extends string>(
  fields: Readonly<Record<Name, NumberField>>,
): ResultCodec<Readonly<Record<Name, number>>> {
  const entries = Object.entries<NumberField>(fields);
  return {
    write: (reply, result) => {
      for (const [name, field] of entries) reply[field] = result[name as Name];
    },
    read: (reply) => Object.fromEntries(entries.map(([name, field]) => [name, reply[field]])) as Record<Name, number>,
  };
}

type NumberField = 'a' | 'b' | 'c' | 'startOffset';

/** The request of a query as a message. Both ends are one build, so what was compiled at one end holds at the other. */
export function asks<Asked>(): RequestCodec<Asked> {
  return {
    write: (request, asked) => {
      // All members of an object are packed: a context that happens to have the right ones is a mistake of the caller.
      assert(
        asked === undefined || Object.getPrototypeOf(asked) === Object.prototype,
        'what is asked is a plain object',
      );
      request.message = pack(asked);
    },
    read: ({ message }) => message as Asked,
  };
}

/** The result of a query as a message, in the body of the reply. */
export function says<Result>(): ResultCodec<Result> {
  return {
    write: (reply, result) => {
      reply.body = pack(result);
    },
    read: ({ body }) => (body === undefined ? undefined : unpack(body)) as Result,
  };
}

/** Any codec, for code that treats all operations alike. */
export interface AnyResultCodec {
  write(reply: Reply, result: never): void;
  read(reply: Reply): unknown;
}

export interface AnyRequestCodec {
  write(request: Request, asked: never): void;
  read(query: Query): unknown;
}

/** A command in the log is read by its own payload and fields (command.ts). */
export type AnyCommandCodec = Pick<AnyRequestCodec, 'write'>;

export interface CommandTraits {
  /** Stored in logs: never reused, never changed. Below KIND_CONDITIONAL. */
  readonly number: number;
  /** A node may forward it to the leader for its clients. Never one that only a leader may propose. */
  readonly forwardable: boolean;
  /** Its payload becomes hot bytes, so the leader's admission bounds apply. */
  readonly wouldAddBytes: boolean;
  /** Reduces what is stored, so it is accepted on a full disk. */
  readonly freesSpace: boolean;
  readonly body: Body;
  /** An empty JSON array is a body without records; otherwise it is refused. */
  readonly mayBringNoRecords: boolean;
  /** `counted`: refused when its bucket is over its quota. `changes`: it changes the quota. */
  readonly quota: 'counted' | 'changes' | 'none';
  /** Uses one of the streams that a quota allows. */
  readonly createsStream: boolean;
  /** Part of an import into a group, which serves nothing else meanwhile. */
  readonly isImport: boolean;
  /** Checks parameters that the state machine trusts; throws on anything invalid from a peer. */
  readonly checkForwarded?: (payload: Uint8Array) => void;
  readonly request: AnyCommandCodec;
  readonly result: AnyResultCodec;
}

/** A command without a client's body; what it adds counts towards no quota. */
export const CHANGE = {
  ...{ forwardable: true, wouldAddBytes: false, freesSpace: false },
  ...{ body: 'none', mayBringNoRecords: false },
  ...{ quota: 'none', createsStream: false, isImport: false },
} as const satisfies Partial<CommandTraits>;

export const REMOVAL = { ...CHANGE, freesSpace: true } as const satisfies Partial<CommandTraits>;

/** Proposed by leaders only. */
export const OF_LEADER = { ...CHANGE, forwardable: false } as const satisfies Partial<CommandTraits>;

/** A client's bytes on their way into a stream. */
export const CLIENT_BYTES = {
  ...{ forwardable: true, wouldAddBytes: true, freesSpace: false },
  ...{ quota: 'counted', isImport: false },
} as const satisfies Partial<CommandTraits>;

/** The part of a node that answers a query, and when. */
export type QueryScope =
  /** The group, once it has caught up: about one stream, or about the group itself. */
  | 'stream'
  | 'group'
  /** The shard, for all of its groups, once they have caught up. */
  | 'shard'
  /** The shard at once, whatever its groups have applied, even if one of them is being imported. */
  | 'control';

export interface QueryTraits {
  readonly number: number;
  readonly scope: QueryScope;
  /**
   * Omissions in the answer mean absence, so every leader must confirm that this node has applied everything. Single
   * streams are confirmed only when they are missing.
   */
  readonly needsLeaders: boolean;
  readonly request: AnyRequestCodec;
  readonly result: AnyResultCodec;
}

/** Keeps the literal types of a declaration, from which the table derives its unions. */
export function command<const T extends CommandTraits>(traits: T): T {
  return traits;
}

export function query<const T extends QueryTraits>(traits: T): T {
  return traits;
}
