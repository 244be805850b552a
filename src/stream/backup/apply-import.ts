/**
 * Imports a backup into an empty group: BEGIN, any number of ROWS in order, END. The node that read the upload has
 * validated the rows (backup/validate.ts). Here they are put in place, invisible until END. ABORT removes them again, a
 * bounded number at a time. Between BEGIN and END, and until an attempt is undone, the group serves no other request.
 */
import { byteAt } from '../../base/bytes.ts';
import { toHex } from '../../base/hex.ts';
import type { Command } from '../../protocol/command.ts';
import { decodeImportEnd, decodeImportRows, decodeImportToken, showBackup } from '../../protocol/import-command.ts';
import type { Reply } from '../../protocol/reply.ts';
import { areRows, eachRow } from '../../base/row-bytes.ts';
import { planted } from '../../base/planted.ts';
import { IMPORTED_TAGS } from './rows.ts';
import { refuse } from '../operations/append.ts';
import { TAG, anyRow, prefixEnd, taggedKey } from '../core/keys.ts';
import { NO_DIGEST } from '../core/import-mark.ts';
import type { State } from '../core/state.ts';
import { COMMANDS, commandsWhere } from '../../protocol/operations.ts';

/** An attempt that has been silent this long may be replaced: its node died. */
export const IMPORT_SILENCE_MS = 10_000;
/** Rows that one ABORT deletes: about 20 ms of apply time. */
const UNDO_ROWS = 4096;
/** Cost of a row for the next checkpoint in addition to its bytes. */
const ROW_DIRTY_BYTES = 32;

const IMPORTS = commandsWhere(({ isImport }) => isImport);

/** An unfinished group has rows that name others which are not there yet. */
export function isImporting(state: State): boolean {
  return state.imported?.phase === 'rows' || state.imported?.phase === 'undoing';
}

/** During an import the group takes nothing else. A command of this kind must not look at its rows. */
export function isClosedTo(state: State, kind: number): boolean {
  return isImporting(state) && !IMPORTS.has(kind) && !planted('writes-during-import');
}

/**
 * b = 1: rows of an earlier attempt must be removed first (ABORT). A refusal names the backup that the group came from.
 * A repeated BEGIN, perhaps long after its attempt continued or was undone, changes nothing.
 */
export function applyImportBegin(state: State, command: Command, reply: Reply): void {
  const token = decodeImportToken(command.payload());
  if (token === undefined) return refuse(reply, 'INTERNAL');
  const mark = state.imported;
  if (mark !== undefined && isImporting(state)) {
    if (planted('import-undone-by-its-own-begin') && mark.pieces > 0) state.markImport({ ...mark, phase: 'undoing' });
    if (mark.token !== token) {
      const silent = command.nowMs - mark.lastMs;
      const isAlive = silent >= 0 && silent < IMPORT_SILENCE_MS;
      if (isAlive && !planted('import-takes-over-at-once')) return refuse(reply, 'IMPORT_RUNNING');
      state.markImport({ ...mark, phase: 'undoing', token, lastMs: command.nowMs });
    }
    COMMANDS.importBegin.result.write(reply, { rowsLeft: state.imported?.phase === 'undoing' });
    return undefined;
  }
  const isOver = mark?.phase === 'undone' && mark.token === token;
  if (isOver && !planted('import-begins-again-late')) return refuse(reply, 'IMPORT_LOST');
  if (holdsAnything(state)) {
    refuse(reply, 'GROUP_NOT_EMPTY');
    showBackup(reply, mark?.phase === 'done' ? toHex(mark.digest) : '');
    return undefined;
  }
  state.markImport({ phase: 'rows', token, pieces: 0, rows: 0, lastMs: command.nowMs, digest: NO_DIGEST });
  return undefined;
}

/** A piece that was already applied is a repetition: its first answer was lost. */
export function applyImportRows(state: State, command: Command, reply: Reply): void {
  const piece = decodeImportRows(command.payload());
  const mark = state.imported;
  if (piece === undefined) return refuse(reply, 'INTERNAL');
  const isOfIt = mark?.token === piece.token || planted('import-piece-of-another');
  if (mark?.phase !== 'rows' || !isOfIt || piece.seq > mark.pieces) return refuse(reply, 'IMPORT_LOST');
  if (piece.seq < mark.pieces && !planted('import-piece-taken-twice')) return undefined;
  if (!areRows(piece.rows)) return refuse(reply, 'INTERNAL');
  let rows = 0;
  for (const { key, value } of eachRow(piece.rows, state.prefix)) {
    if (!IMPORTED_TAGS.includes(byteAt(key, 2))) continue;
    state.overlay.put(key, value);
    state.dirtyBytes += key.length + value.length + ROW_DIRTY_BYTES;
    rows++;
  }
  state.markImport({ ...mark, pieces: mark.pieces + 1, rows: mark.rows + rows, lastMs: command.nowMs });
  return undefined;
}

export function applyImportEnd(state: State, command: Command, reply: Reply): void {
  const end = decodeImportEnd(command.payload());
  const mark = state.imported;
  if (end === undefined) return refuse(reply, 'INTERNAL');
  if (mark?.phase === 'done' && mark.token === end.token) return undefined;
  if (mark?.phase !== 'rows') return refuse(reply, 'IMPORT_LOST');
  const whole = mark.token === end.token && mark.pieces === end.pieces && mark.rows === end.rows;
  if (!whole && !planted('import-end-unchecked')) return refuse(reply, 'IMPORT_LOST');
  if (!planted('import-keeps-old-buckets')) state.buckets.forget();
  state.forks.forget();
  if (!planted('import-counts-no-hot-bytes')) state.hotBytes = end.hotBytes;
  if (!planted('import-numbers-from-one')) state.nextIncarnation = end.nextIncarnation;
  const { cold } = state;
  cold.bytes = end.coldBytes;
  cold.objects = end.objects;
  cold.objectBytes = end.objectBytes;
  cold.gcLength = 0;
  // This cluster may not delete objects of the backup's cluster unless it replaces that cluster.
  cold.origin = end.origin;
  // The import counts as one applied command.
  if (!planted('import-goes-on-counting')) state.appliedCommands = 0;
  // Numbers of incarnations are those of the backup now.
  state.lineage++;
  state.markImport({ ...mark, phase: 'done', lastMs: command.nowMs, digest: end.digest });
  return undefined;
}

/** b = 1: rows are left. */
export function applyImportAbort(state: State, command: Command, reply: Reply): void {
  const token = decodeImportToken(command.payload());
  const mark = state.imported;
  if (mark === undefined || mark.phase === 'done' || mark.token !== token) return refuse(reply, 'IMPORT_LOST');
  if (mark.phase === 'undone') return undefined;
  const keys: Uint8Array[] = [];
  const rowsMax = planted('import-undone-in-many-steps') ? 3 : UNDO_ROWS;
  for (const tag of planted('import-undone-but-for-indexes') ? IMPORTED_TAGS.slice(0, -4) : IMPORTED_TAGS) {
    if (keys.length === rowsMax) break;
    const start = taggedKey(state.prefix, tag);
    state.overlay.keys(start, prefixEnd(start), (key) => keys.push(key.slice()) < rowsMax);
  }
  for (const key of keys) state.overlay.delete(key);
  state.dirtyBytes += ROW_DIRTY_BYTES * keys.length;
  if (keys.length < rowsMax) {
    state.buckets.forget();
    state.markImport({ ...mark, phase: 'undone', pieces: 0, rows: 0, lastMs: command.nowMs });
    return undefined;
  }
  state.markImport({ ...mark, phase: 'undoing', lastMs: command.nowMs });
  COMMANDS.importAbort.result.write(reply, { rowsLeft: true });
  return undefined;
}

/** A bucket counts even when removed, because its counters exist. Streams are in buckets, but may not be stored yet. */
export function holdsAnything(state: State): boolean {
  const holds = (tag: number): boolean => anyRow(state.tx, taggedKey(state.prefix, tag));
  return state.buckets.dirtyCount > 0 || holds(TAG.bucket) || holds(TAG.head);
}
