/** The published snapshot of a stream: its metadata, and slices of its bytes. */
import { query } from './operation.ts';
import type { StreamName } from './flat-path.ts';
import { type ValuesOf, choiceIn, numberIn, resultFields, streamQueryFields, textIn } from './frame-fields.ts';
import { A, B, MAX_BYTES, MAX_RECORDS, MODE, TEXT, VALUE } from './generic-fields.ts';

/** The one at an offset; the latest; the latest, or the stream alone when there is none. */
const CHOICES = ['at', 'latest', 'any'] as const;

const SNAPSHOT_PARAMETERS = {
  choice: choiceIn(MODE, CHOICES),
  /** The offset for `at`. */
  offset: numberIn(VALUE),
  /** A slice of its bytes, from `from` on; of no bytes: only what it is. */
  from: numberIn(MAX_RECORDS),
  maxBytes: numberIn(MAX_BYTES),
};

export type SnapshotRequest = StreamName & ValuesOf<typeof SNAPSHOT_PARAMETERS>;

/** Metadata in addition to its type, its bytes and the common fields of a reply. */
const SNAPSHOT_RESULT = resultFields({
  /** -1: none, for queries that accept that. */
  offset: numberIn('startOffset'),
  incarnation: numberIn(A),
  size: numberIn(B),
  digest: textIn(TEXT),
});

export const snapshot = query({
  number: 42,
  scope: 'stream',
  needsLeaders: false,
  request: streamQueryFields(SNAPSHOT_PARAMETERS),
  result: SNAPSHOT_RESULT,
});
