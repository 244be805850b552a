/** The common parts of all messages on a peer link. */
import type { Reader, Writer } from '../../base/cursor.ts';
import { f64, struct } from '../../base/struct.ts';
import type { Envelope, PeerNote, RecoveryNote } from '../types.ts';

/**
 * One kind of message. On the wire its body follows a header that the frame writes (raft-frame.ts): group, number,
 * flags, term. `from` and `to` are not written: the link has authenticated both, so no message can lie about them.
 */
export interface Codec<T> {
  /** Identifies the kind on the wire; never reused. */
  readonly number: number;
  /** Every flag that may be set. */
  readonly flagMask: number;
  flags(message: T): number;
  bodyBytes(message: T): number;
  writeBody(writer: Writer, message: T): void;
  /** Total: on bad input the reader is marked bad and the result is meaningless. */
  readBody(reader: Reader, flags: number, envelope: Envelope): T;
}

export const RECOVERY_NOTE = struct({ allowedBoot: f64 });
const NOTE_RESTORED = 1;
const NOTE_BOOT = 2;
export const NOTE_MASK = NOTE_RESTORED | NOTE_BOOT;

export function noteFlags(note: RecoveryNote): number {
  return (note.restored ? NOTE_RESTORED : 0) | (note.allowedBoot === 0 ? 0 : NOTE_BOOT);
}

export function noteBytes(note: RecoveryNote): number {
  return note.allowedBoot === 0 ? 0 : RECOVERY_NOTE.size;
}

export function writeNote(writer: Writer, note: RecoveryNote): void {
  if (note.allowedBoot !== 0) writer.record(RECOVERY_NOTE, note);
}

/** The boot of a note, 0 for none. */
export function readNoteBoot(reader: Reader, flags: number): number {
  if ((flags & NOTE_BOOT) === 0) return 0;
  const { allowedBoot } = reader.record(RECOVERY_NOTE);
  if (allowedBoot === 0) reader.fail();
  return allowedBoot;
}

export function noteRestored(flags: number): boolean {
  return (flags & NOTE_RESTORED) !== 0;
}

const PEER_LOST_MASK = 3;
const PEER_REFUSES = 4;
/** The one bit between them that is the message's own. */
export const PEER_OWN_FLAG = 8;
/** From protocol 5 on. */
const PEER_WANTS_STATE = 16;
export const PEER_MASK = PEER_LOST_MASK | PEER_REFUSES | PEER_WANTS_STATE;

export function peerFlags(note: PeerNote): number {
  return note.lost | (note.refusesLead ? PEER_REFUSES : 0) | (note.wantsState ? PEER_WANTS_STATE : 0);
}

export function readLost(reader: Reader, flags: number): 0 | 1 | 2 {
  const lost = flags & PEER_LOST_MASK;
  if (lost === 0 || lost === 1 || lost === 2) return lost;
  reader.fail();
  return 0;
}

export function refusesLead(flags: number): boolean {
  return (flags & PEER_REFUSES) !== 0;
}

export function wantsState(flags: number): boolean {
  return (flags & PEER_WANTS_STATE) !== 0;
}
