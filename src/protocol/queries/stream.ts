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
  /** The snapshot at `offset`; the latest; the latest, or the stream alone when it has no snapshot. */
  readonly choice: 'at' | 'latest' | 'any';
  /** Read only when `choice` is 'at'. */
  readonly offset: number;
  /** Asks for a slice of the snapshot's bytes, from `from` on. `maxBytes` 0 asks for its description alone. */
  readonly from: number;
  readonly maxBytes: number;
}

export interface SnapshotResult {
  /** The snapshot's offset; -1 for `any` when there is no snapshot. */
  readonly offset: number;
  readonly incarnation: number;
  readonly size: number;
  readonly digest: string;
  /** The slice that was asked for. */
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
