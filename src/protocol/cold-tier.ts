/** What the cold tier does to a group (payloads: cold.ts), and what operators ask of it. */
import { decodeGcList } from './cold.ts';
import { command, query } from './operation.ts';

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
});

/** Entries of the GC queue whose objects are gone from the cold store. */
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
});

/** Objects found in the cold store that nothing refers to. */
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
});

/** Moves all bytes of one stream to the cold store, whatever their age. */
export const flushStream = query({ number: 43, scope: 'control', needsLeaders: false, duringImport: true });

/** Objects of one bucket (the key) that a group is to delete: up to maxRecords of them. */
export const bucketGarbage = query({ number: 44, scope: 'group', needsLeaders: false, duringImport: false });
