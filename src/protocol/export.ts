/** A backup of a group (backup/shard/exports.ts). */
import { query } from './operation.ts';

/** mode = one of EXPORT_*, value = the number of the export, but for OPEN. */
export const exportGroup = query({ number: 45, scope: 'control', needsLeaders: false, duringImport: true });
