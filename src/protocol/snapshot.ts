/** The published snapshot of a stream: what it is, and slices of its bytes. */
import { query, type ResultCodec } from './operation.ts';
import { A, B, TEXT } from './generic-fields.ts';

/** What is published, beside its type and bytes and what the reply says of any stream. */
export interface SnapshotResult {
  /** -1: none, for those who ask for whatever there is. */
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

/** mode = one of SNAPSHOT_*, value = the offset asked for; maxBytes bytes of it from maxRecords on (0: none, only what it is). */
export const snapshot = query({
  number: 42,
  scope: 'stream',
  needsLeaders: false,
  duringImport: false,
  result: SNAPSHOT_RESULT,
});
