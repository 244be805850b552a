/** Operations of the cold tier on a group (payloads: cold.ts). */
import { type Orphan, decodeGcList, encodeFlushList, encodeGcList, encodeOrphanList } from './cold.ts';
import { NO_RESULT, CHANGE, OF_LEADER, command, numbersIn } from './operation.ts';
import { NO_FIELDS, commandFields, withPayload } from './command-request.ts';

/** An object is in the cold store; its slices replace the rows that they hold. */
export const flush = command({
  number: 13,
  ...OF_LEADER,
  request: withPayload(commandFields('bucket'), encodeFlushList),
  /** Slices that replaced rows or chunks; the others came too late. */
  result: numbersIn({ slicesAccepted: 'a' }),
});

/** Entries of the GC queue whose objects have been deleted from the cold store. */
export const gcDone = command({
  number: 14,
  ...CHANGE,
  checkForwarded: (payload) => void decodeGcList(payload),
  request: withPayload(NO_FIELDS, ({ seqs }: { readonly seqs: readonly number[] }) => encodeGcList(seqs)),
  result: NO_RESULT,
});

/** Unreferenced objects found in the cold store. */
export const markOrphan = command({
  number: 15,
  ...OF_LEADER,
  request: withPayload(NO_FIELDS, ({ orphans }: { readonly orphans: readonly Orphan[] }) => encodeOrphanList(orphans)),
  result: NO_RESULT,
});

/** An object is in the cold store whose chunks each replace a run of chunks. Payload: as of a flush. */
export const compact = command({ ...flush, number: 16 });
