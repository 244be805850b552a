/** Operations of the cold tier on a group (payloads: cold.ts), and operators' requests to it. */
import { decodeGcList } from './cold.ts';
import { NO_RESULT, command, query, type ResultCodec } from './operation.ts';
import { decodeUtf8, encodeUtf8 } from '../base/utf8.ts';
import { CALL_RESULT } from './call-result.ts';
import { A, B } from './generic-fields.ts';

/** Slices of a flush or compaction that replaced rows or chunks; the others came too late. */
export interface SlicesResult {
  readonly slicesAccepted: number;
}

const SLICES_RESULT: ResultCodec<SlicesResult> = {
  write(reply, { slicesAccepted }) {
    reply[A] = slicesAccepted;
  },
  read: (reply) => ({ slicesAccepted: reply[A] }),
};

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

const GARBAGE_RESULT: ResultCodec<GarbageResult> = {
  write(reply, { entries, isRestored, seqs, keys }) {
    reply[A] = entries;
    reply[B] = isRestored ? 1 : 0;
    reply.body = encodeUtf8(JSON.stringify({ seqs, keys }));
  },
  read(reply) {
    const text = reply.body === undefined ? '{"seqs":[],"keys":[]}' : decodeUtf8(reply.body);
    const { seqs, keys } = JSON.parse(text) as Pick<GarbageResult, 'seqs' | 'keys'>;
    return { entries: reply[A], isRestored: reply[B] === 1, seqs, keys };
  },
};

/** An object is in the cold store; its slices replace the rows that they hold. */
export const flush = command({
  number: 13,
  forwardable: false,
  wouldAddBytes: false,
  freesSpace: false,
  body: 'none',
  mayBringNoRecords: false,
  quota: 'none',
  createsStream: false,
  isImport: false,
  result: SLICES_RESULT,
});

/** Entries of the GC queue whose objects have been deleted from the cold store. */
export const gcDone = command({
  number: 14,
  forwardable: true,
  wouldAddBytes: false,
  freesSpace: false,
  body: 'none',
  mayBringNoRecords: false,
  quota: 'none',
  createsStream: false,
  isImport: false,
  checkForwarded: (payload) => void decodeGcList(payload),
  result: NO_RESULT,
});

/** Unreferenced objects found in the cold store. */
export const markOrphan = command({
  number: 15,
  forwardable: false,
  wouldAddBytes: false,
  freesSpace: false,
  body: 'none',
  mayBringNoRecords: false,
  quota: 'none',
  createsStream: false,
  isImport: false,
  result: NO_RESULT,
});

/** An object is in the cold store whose chunks each replace a run of chunks. Payload: as of a flush. */
export const compact = command({
  number: 16,
  forwardable: false,
  wouldAddBytes: false,
  freesSpace: false,
  body: 'none',
  mayBringNoRecords: false,
  quota: 'none',
  createsStream: false,
  isImport: false,
  result: SLICES_RESULT,
});

/** Moves all bytes of one stream to the cold store, whatever their age. */
export const flushStream = query({
  number: 43,
  scope: 'control',
  needsLeaders: false,
  duringImport: true,
  result: CALL_RESULT,
});

/** Objects of one bucket (the key) that a group must delete: up to maxRecords of them. */
export const bucketGarbage = query({
  number: 44,
  scope: 'group',
  needsLeaders: false,
  duringImport: false,
  result: GARBAGE_RESULT,
});
