/**
 * The import row of a group: a running import, one being undone, or the one that the group came from.
 * phase u8 | format u8 (1) | zeros u16 | pieces u32 | rows f64 | last ms f64 | token, 16 hex digits | digest, 32 bytes
 */
import { assert } from '../../base/assert.ts';
import { readText, writeText } from '../../base/text.ts';

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
const TOKEN_AT = 24;
const TOKEN_BYTES = 16;
const DIGEST_AT = TOKEN_AT + TOKEN_BYTES;

export function encodeImportMark(mark: ImportMark): Uint8Array {
  const row = new Uint8Array(DIGEST_AT + NO_DIGEST.length);
  const view = new DataView(row.buffer);
  row[0] = PHASES.indexOf(mark.phase);
  row[1] = FORMAT;
  view.setUint32(4, mark.pieces, true);
  view.setFloat64(8, mark.rows, true);
  view.setFloat64(16, mark.lastMs, true);
  writeText(row, TOKEN_AT, mark.token);
  row.set(mark.digest, DIGEST_AT);
  return row;
}

export function decodeImportMark(row: Uint8Array): ImportMark {
  const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
  const phase = PHASES[row[0] as number];
  assert(phase !== undefined && row[1] === FORMAT, 'known import row format');
  return {
    phase,
    token: readText(row, TOKEN_AT, TOKEN_BYTES),
    pieces: view.getUint32(4, true),
    rows: view.getFloat64(8, true),
    lastMs: view.getFloat64(16, true),
    digest: row.slice(DIGEST_AT),
  };
}
