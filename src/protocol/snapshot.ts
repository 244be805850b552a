/** The published snapshot of a stream: its metadata, and slices of its bytes. */
import { query, type ResultCodec } from './operation.ts';
import { A, B, TEXT } from './generic-fields.ts';

/** Metadata in addition to its type, its bytes and the common fields of a reply. */
export interface SnapshotResult {
  /** -1: none, for queries that accept that. */
  readonly offset: number;
  readonly incarnation: number;
  readonly size: number;
  readonly digest: string;
}

const SNAPSHOT_RESULT: ResultCodec<SnapshotResult> = {
  write(reply, { offset, incarnation, size, digest }) {
    reply.startOffset = offset;
    reply[A] = incarnation;
    reply[B] = size;
    reply[TEXT] = digest;
  },
  read: (reply) => ({ offset: reply.startOffset, incarnation: reply[A], size: reply[B], digest: reply[TEXT] }),
};

/**
 * mode = one of SNAPSHOT_*, value = the requested offset; maxBytes bytes of it from maxRecords on (0: only its
 * metadata).
 */
export const snapshot = query({
  number: 42,
  scope: 'stream',
  needsLeaders: false,
  duringImport: false,
  result: SNAPSHOT_RESULT,
});
