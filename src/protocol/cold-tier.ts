/** Operations of the cold tier on a group (payloads: cold.ts), and operators' requests to it. */
import { type Orphan, decodeGcList, encodeFlushList, encodeGcList, encodeOrphanList } from './cold.ts';
import { PARAMETERS_ONLY, NO_RESULT, command, query, type ResultCodec } from './operation.ts';
import { isArrayOf, isNumber, isObjectOf, isText, readJson, writeJson } from './json-result.ts';
import { CALL_RESULT } from './call-result.ts';
import { numberIn, resultFields, streamQueryFields } from './frame-fields.ts';
import { A, B, MAX_BYTES, MAX_RECORDS, VALUE } from './generic-fields.ts';
import { type RequestCodec, nameStream } from './request.ts';
import { NO_FIELDS, commandFields, withPayload } from './command-request.ts';

/** Slices of a flush or compaction that replaced rows or chunks; the others came too late. */
const SLICES_RESULT = resultFields({ slicesAccepted: numberIn(A) });

/** Objects of one bucket that a group must delete. */
export interface GarbageResult {
  /** Entries of the queue, counted within one pass. */
  readonly entries: number;
  /** The group came from a backup, so some objects may be another cluster's. */
  readonly isRestored: boolean;
  /** Some of the entries, and the keys of those objects that are the group's own. */
  readonly seqs: readonly number[];
  readonly keys: readonly string[];
}

const isGarbage = isObjectOf<Pick<GarbageResult, 'seqs' | 'keys'>>({
  seqs: isArrayOf(isNumber),
  keys: isArrayOf(isText),
});

const GARBAGE_RESULT: ResultCodec<GarbageResult> = {
  write(reply, { entries, isRestored, seqs, keys }) {
    reply[A] = entries;
    reply[B] = isRestored ? 1 : 0;
    writeJson(reply, { seqs, keys });
  },
  read: (reply) => ({ entries: reply[A], isRestored: reply[B] === 1, ...readJson(reply, isGarbage) }),
};

/** An object is in the cold store; its slices replace the rows that they hold. */
export const flush = command({
  number: 13,
  forwardable: false,
  wouldAddBytes: false,
  freesSpace: false,
  ...PARAMETERS_ONLY,
  request: withPayload(commandFields('bucket'), encodeFlushList),
  result: SLICES_RESULT,
});

/** Entries of the GC queue whose objects have been deleted from the cold store. */
export const gcDone = command({
  number: 14,
  forwardable: true,
  wouldAddBytes: false,
  freesSpace: false,
  ...PARAMETERS_ONLY,
  checkForwarded: (payload) => void decodeGcList(payload),
  request: withPayload(NO_FIELDS, ({ seqs }: { readonly seqs: readonly number[] }) => encodeGcList(seqs)),
  result: NO_RESULT,
});

/** Unreferenced objects found in the cold store. */
export const markOrphan = command({
  number: 15,
  forwardable: false,
  wouldAddBytes: false,
  freesSpace: false,
  ...PARAMETERS_ONLY,
  request: withPayload(NO_FIELDS, ({ orphans }: { readonly orphans: readonly Orphan[] }) => encodeOrphanList(orphans)),
  result: NO_RESULT,
});

/** An object is in the cold store whose chunks each replace a run of chunks. Payload: as of a flush. */
export const compact = command({
  number: 16,
  forwardable: false,
  wouldAddBytes: false,
  freesSpace: false,
  ...PARAMETERS_ONLY,
  request: withPayload(commandFields('bucket'), encodeFlushList),
  result: SLICES_RESULT,
});

/** A prefix of the stream's hot bytes, when it has at least so many; one object of at most `maxBytes`, 0: the shard's own bound. */
const FLUSH_STREAM = streamQueryFields({ minHotBytes: numberIn(VALUE), maxBytes: numberIn(MAX_BYTES) });

/** Up to `limit` objects of one bucket. */
export interface GarbageRequest {
  readonly bucket: string;
  readonly limit: number;
}

const GARBAGE: RequestCodec<GarbageRequest> = {
  write(request, { bucket, limit }) {
    nameStream(request, { bucket, stream: '' });
    request[MAX_RECORDS] = limit;
  },
  read: (query) => ({ bucket: query.keyText(), limit: query[MAX_RECORDS] }),
};

/** Moves all bytes of one stream to the cold store, whatever their age. */
export const flushStream = query({
  number: 43,
  scope: 'control',
  needsLeaders: false,
  request: FLUSH_STREAM,
  result: CALL_RESULT,
});

/** Objects of one bucket that a group must delete. */
export const bucketGarbage = query({
  number: 44,
  scope: 'group',
  needsLeaders: false,
  request: GARBAGE,
  result: GARBAGE_RESULT,
});
