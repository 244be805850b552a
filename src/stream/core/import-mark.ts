/**
 * The import row of a group: a running import, one being undone, or the one that the group came from.
 */
import { assert } from '../../base/assert.ts';
import { bytes, f64, struct, text, u32, u8, zeros } from '../../base/struct.ts';

export type ImportPhase =
  /** Rows arrive; they are invisible. */
  | 'rows'
  /** It was abandoned, and its rows are being deleted. */
  | 'undoing'
  /** It was abandoned, and only its token is left: a late BEGIN with that token starts nothing. */
  | 'undone'
  /** The group holds the backup's state and continues from there. */
  | 'done';

export interface ImportMark {
  readonly phase: ImportPhase;
  /** Identifies the attempt. */
  readonly token: string;
  readonly pieces: number;
  readonly rows: number;
  /** Clock of the last command of the attempt. */
  readonly lastMs: number;
  /** BLAKE3 of the document, when it is done. */
  readonly digest: Uint8Array;
}

export const NO_DIGEST = new Uint8Array(32);
const PHASES: readonly ImportPhase[] = ['rows', 'undoing', 'done', 'undone'];
const FORMAT = 1;
export const IMPORT_ROW = struct({
  ...{ phase: u8, format: u8, zeros: zeros(2), pieces: u32, rows: f64, lastMs: f64 },
  ...{ token: text(16), digest: bytes(32) },
});

export function encodeImportMark(mark: ImportMark): Uint8Array {
  return IMPORT_ROW.encode({ ...mark, phase: PHASES.indexOf(mark.phase), format: FORMAT });
}

export function decodeImportMark(row: Uint8Array): ImportMark {
  const { format, phase: number, ...mark } = IMPORT_ROW.decode(row);
  const phase = PHASES[number];
  assert(phase !== undefined && format === FORMAT, 'known import row format');
  return { ...mark, phase, digest: mark.digest.slice() };
}
