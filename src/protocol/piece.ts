/**
 * A piece of a large command, so that others pass between the pieces. The pieces of one command follow each other in the
 * log in order, all of one term. The last one executes the command.
 */
import { viewOf } from '../base/bytes.ts';
import { struct, u32 } from '../base/struct.ts';
import { COMMAND } from './command-layout.ts';
import { NO_RESULT, OF_LEADER, command } from './operation.ts';
import { NO_FIELDS, withPayload } from './command-request.ts';

/** @internal */
export const PIECE = struct({ totalBytes: u32, offset: u32 }, 'bytes of the command');
const { totalBytes: TOTAL, offset: OFFSET } = PIECE.fields;

/** Size of a piece in a log entry in addition to its bytes. */
export const PIECE_HEAD_BYTES = COMMAND.size + PIECE.size;

export interface CommandPiece {
  /** Size of the whole command. */
  readonly totalBytes: number;
  /** Where the bytes belong in it. */
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** Proposed by leaders only, for a command that they accepted. */
export const piece = command({
  number: 29,
  ...OF_LEADER,
  request: withPayload(NO_FIELDS, ({ bytes, ...place }: CommandPiece) => PIECE.encode(place, bytes)),
  result: NO_RESULT,
});

/** Everything in front of the bytes. */
export function writePieceHead(
  view: DataView,
  at: number,
  place: Omit<CommandPiece, 'bytes'>,
  sizeBytes: number,
): void {
  COMMAND.write(view, at, {
    ...{ kind: piece.number, zero: 0, flags: 0, keyBytes: 0, contentTypeBytes: 0, nowMs: 0 },
    ...{ payloadBytes: PIECE.size + sizeBytes, recordCount: 0 },
  });
  PIECE.write(view, at + COMMAND.size, place);
}

/** The bytes are a view. */
export function decodePiece(payload: Uint8Array): CommandPiece {
  const view = viewOf(payload);
  return { totalBytes: TOTAL.get(view, 0), offset: OFFSET.get(view, 0), bytes: payload.subarray(PIECE.size) };
}
