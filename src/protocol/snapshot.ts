/** The published snapshot of a stream: what it is, and slices of its bytes. */
import { query } from './operation.ts';

/** mode = one of SNAPSHOT_*, value = the offset asked for; maxBytes bytes of it from maxRecords on (0: none, only what it is). */
export const snapshot = query({ number: 42, scope: 'stream', needsLeaders: false, duringImport: false });
