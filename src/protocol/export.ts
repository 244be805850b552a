/** A backup of a group (backup/shard/exports.ts). */
import { query, type ResultCodec } from './operation.ts';
import { A, B, TEXT } from './generic-fields.ts';

/** Result of EXPORT_OPEN. */
export interface ExportResult {
  /** Its name in the other calls. */
  readonly id: number;
  readonly appliedCommands: number;
  /** Origin of the group's objects in the cold store. */
  readonly origin: string;
}

const EXPORT_RESULT: ResultCodec<ExportResult> = {
  write(reply, { id, appliedCommands, origin }) {
    reply[A] = id;
    reply[B] = appliedCommands;
    reply[TEXT] = origin;
  },
  read: (reply) => ({ id: reply[A], appliedCommands: reply[B], origin: reply[TEXT] }),
};

/** mode = one of EXPORT_*, value = the number of the export, but for OPEN. */
export const exportGroup = query({
  number: 45,
  scope: 'control',
  needsLeaders: false,
  duringImport: true,
  result: EXPORT_RESULT,
});
