/** The published snapshot of a stream: its metadata, and slices of its bytes. */
import { query, type ResultCodec } from './operation.ts';
import type { StreamName } from './flat-path.ts';
import { A, B, MAX_BYTES, MAX_RECORDS, MODE, TEXT, VALUE } from './generic-fields.ts';
import { type RequestCodec, nameStream } from './request.ts';

/** The one at an offset; the latest; the latest, or the stream alone when there is none. */
const CHOICES = ['at', 'latest', 'any'] as const;

export interface SnapshotRequest extends StreamName {
  readonly choice: (typeof CHOICES)[number];
  /** Of `at`. */
  readonly offset: number;
  /** A slice of its bytes, from `from` on; of no bytes: only what it is. */
  readonly from: number;
  readonly maxBytes: number;
}

const SNAPSHOT_REQUEST: RequestCodec<SnapshotRequest, Omit<SnapshotRequest, keyof StreamName>> = {
  write(request, asked) {
    nameStream(request, asked);
    request[MODE] = CHOICES.indexOf(asked.choice);
    request[VALUE] = asked.offset;
    request[MAX_RECORDS] = asked.from;
    request[MAX_BYTES] = asked.maxBytes;
  },
  read: (query) => ({
    choice: CHOICES[query[MODE]] ?? 'any',
    offset: query[VALUE],
    from: query[MAX_RECORDS],
    maxBytes: query[MAX_BYTES],
  }),
};

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

export const snapshot = query({
  number: 42,
  scope: 'stream',
  needsLeaders: false,
  duringImport: false,
  request: SNAPSHOT_REQUEST,
  result: SNAPSHOT_RESULT,
});
