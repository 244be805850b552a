/** Queries about one stream. Its position, type and records are in the head of the reply, as for any operation. */
import type { StreamName } from '../flat-path.ts';
import { asks, query, says } from '../operation.ts';

export interface HeadResult {
  /** Tag of the state, for conditional writes. */
  readonly tag: string;
  /** Start of the bytes that the nodes hold. */
  readonly hotStart: number;
  /** -1: none. */
  readonly ttlSeconds: number;
  readonly expiresAtMs: number;
  readonly incarnation: number;
  /** Undefined: none is published. */
  readonly snapshot: { readonly offset: number; readonly digest: string } | undefined;
}

/** Metadata and position of a stream. */
export const head = query({
  number: 33,
  scope: 'stream',
  needsLeaders: false,
  request: asks<StreamName>(),
  result: says<HeadResult>(),
});

/** The attributes of a stream, a JSON object. */
export const getAttributes = query({
  number: 34,
  scope: 'stream',
  needsLeaders: false,
  request: asks<StreamName>(),
  result: says<{ readonly json: Uint8Array }>(),
});

export interface SnapshotRequest extends StreamName {
  /** The one at `offset`; the latest; the latest, or the stream alone when there is none. */
  readonly choice: 'at' | 'latest' | 'any';
  /** Only read for `at`. */
  readonly offset: number;
  /** A slice of its bytes, from `from` on. `maxBytes` 0: none, only its description. */
  readonly from: number;
  readonly maxBytes: number;
}

export interface SnapshotResult {
  /** -1: none, for queries that accept that. */
  readonly offset: number;
  readonly incarnation: number;
  readonly size: number;
  readonly digest: string;
  /** The slice. */
  readonly bytes: Uint8Array;
}

/** The published snapshot of a stream. */
export const snapshot = query({
  number: 42,
  scope: 'stream',
  needsLeaders: false,
  request: asks<SnapshotRequest>(),
  result: says<SnapshotResult>(),
});
