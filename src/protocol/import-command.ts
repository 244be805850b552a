/**
 * Payloads of the commands that import a backup into an empty group, a bounded piece at a time
 * (stream/backup/apply-import.ts). `token` identifies one attempt: 16 hex digits, drawn by the node that reads the
 * upload. Little-endian.
 */
import { NO_ORIGIN } from './object-key.ts';
import { Reader, Writer } from '../base/cursor.ts';
import { toHex } from '../base/hex.ts';
import { f64, struct, u32 } from '../base/struct.ts';
import { NO_RESULT, CHANGE, REMOVAL, type ResultCodec, command } from './operation.ts';
import type { Reply } from './reply.ts';
import { NO_FIELDS, withPayload } from './command-request.ts';

/** Rows of an earlier attempt, or of the undone one, remain for an ABORT to delete. */
const ROWS_LEFT: ResultCodec<{ readonly rowsLeft: boolean }> = {
  write(reply, { rowsLeft }) {
    reply.b = rowsLeft ? 1 : 0;
  },
  read: ({ b }) => ({ rowsLeft: b === 1 }),
};

/** For GROUP_NOT_EMPTY: the backup that the group came from. Empty: none. */
export function showBackup(reply: Reply, digest: string): void {
  reply.text = digest;
}

const TOKEN = withPayload(NO_FIELDS, ({ token }: { readonly token: string }) => encodeImportToken(token));

export const importBegin = command({
  number: 17,
  ...CHANGE,
  isImport: true,
  request: TOKEN,
  result: ROWS_LEFT,
});

export const importRows = command({
  number: 18,
  ...CHANGE,
  isImport: true,
  request: withPayload(NO_FIELDS, encodeImportRows),
  result: NO_RESULT,
});

export const importEnd = command({
  number: 19,
  ...CHANGE,
  isImport: true,
  request: withPayload(NO_FIELDS, encodeImportEnd),
  result: NO_RESULT,
});

export const importAbort = command({
  number: 20,
  ...REMOVAL,
  isImport: true,
  request: TOKEN,
  result: ROWS_LEFT,
});

const TOKEN_BYTES = 8;

/** Rows of the backup as base/row-bytes.ts has them; `seq` counts the pieces from 0. */
export interface ImportRows {
  readonly token: string;
  readonly seq: number;
  readonly rows: Uint8Array;
}

/** @internal Number of pieces, and totals of the rows: the counters of the group. */
export const IMPORT_TOTALS = struct(
  {
    ...{ pieces: u32, rows: f64, nextIncarnation: f64 },
    ...{ hotBytes: f64, coldBytes: f64, objects: f64, objectBytes: f64 },
  },
  'digest, 32 bytes; origin, if there is one',
);

export interface ImportEnd extends Readonly<ReturnType<typeof IMPORT_TOTALS.decode>> {
  readonly token: string;
  /** BLAKE3 of the document. */
  readonly digest: Uint8Array;
  /** The owner of the group's objects in the cold store from now on; NO_ORIGIN: none. */
  readonly origin: string;
}

const DIGEST_BYTES = 32;

/** BEGIN and ABORT: token. */
export function encodeImportToken(token: string): Uint8Array {
  const writer = new Writer(new Uint8Array(TOKEN_BYTES));
  writeToken(writer, token);
  return writer.finish();
}

export function decodeImportToken(payload: Uint8Array): string | undefined {
  const reader = new Reader(payload);
  const token = readToken(reader);
  return reader.finished ? token : undefined;
}

/** token | seq u32 | rows. */
export function encodeImportRows({ token, seq, rows }: ImportRows): Uint8Array {
  const writer = new Writer(new Uint8Array(TOKEN_BYTES + 4 + rows.length));
  writeToken(writer, token);
  writer.u32(seq);
  writer.raw(rows);
  return writer.finish();
}

/** The rows are not copied. */
export function decodeImportRows(payload: Uint8Array): ImportRows | undefined {
  const reader = new Reader(payload);
  const token = readToken(reader);
  const seq = reader.u32();
  return reader.bad ? undefined : { token, seq, rows: payload.subarray(TOKEN_BYTES + 4) };
}

/** token | IMPORT_TOTALS | digest | origin, if there is one. */
export function encodeImportEnd(end: ImportEnd): Uint8Array {
  const adopts = end.origin !== NO_ORIGIN;
  const writer = new Writer(
    new Uint8Array(TOKEN_BYTES + IMPORT_TOTALS.size + DIGEST_BYTES + (adopts ? TOKEN_BYTES : 0)),
  );
  writeToken(writer, end.token);
  writer.record(IMPORT_TOTALS, end);
  writer.raw(end.digest);
  if (adopts) writeToken(writer, end.origin);
  return writer.finish();
}

export function decodeImportEnd(payload: Uint8Array): ImportEnd | undefined {
  const reader = new Reader(payload);
  const end = {
    token: readToken(reader),
    ...reader.record(IMPORT_TOTALS),
    digest: reader.ownBytes(DIGEST_BYTES),
    origin: reader.leftBytes === 0 ? NO_ORIGIN : readToken(reader),
  };
  return reader.finished ? end : undefined;
}

function writeToken(writer: Writer, token: string): void {
  for (let i = 0; i < 2 * TOKEN_BYTES; i += 2) writer.u8(Number.parseInt(token.slice(i, i + 2), 16));
}

function readToken(reader: Reader): string {
  return toHex(reader.bytes(TOKEN_BYTES));
}
