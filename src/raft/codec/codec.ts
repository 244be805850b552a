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

/** A leader's message has its word on a recovery in its flags, and in a record when a boot is allowed. */
export const recoveryNote = {
  mask: NOTE_RESTORED | NOTE_BOOT,
  flags: ({ restored, allowedBoot }: RecoveryNote): number =>
    (restored ? NOTE_RESTORED : 0) | (allowedBoot === 0 ? 0 : NOTE_BOOT),
  bytes: ({ allowedBoot }: RecoveryNote): number => (allowedBoot === 0 ? 0 : RECOVERY_NOTE.size),
  write(writer: Writer, note: RecoveryNote): void {
    if (note.allowedBoot !== 0) writer.record(RECOVERY_NOTE, note);
  },
  read(reader: Reader, flags: number): RecoveryNote {
    const restored = (flags & NOTE_RESTORED) !== 0;
    if ((flags & NOTE_BOOT) === 0) return { allowedBoot: 0, restored };
    const { allowedBoot } = reader.record(RECOVERY_NOTE);
    if (allowedBoot === 0) reader.fail();
    return { allowedBoot, restored };
  },
};

const PEER_LOST_MASK = 3;
const PEER_REFUSES = 4;
/** The one bit between them that is the message's own. */
export const PEER_OWN_FLAG = 8;
/** From protocol 5 on. */
const PEER_WANTS_STATE = 16;

/** An answer has its word on its node in its flags. */
export const peerNote = {
  mask: PEER_LOST_MASK | PEER_REFUSES | PEER_WANTS_STATE,
  flags: ({ lost, refusesLead, wantsState }: PeerNote): number =>
    lost | (refusesLead ? PEER_REFUSES : 0) | (wantsState ? PEER_WANTS_STATE : 0),
  read(reader: Reader, flags: number): Pick<PeerNote, 'lost' | 'refusesLead' | 'wantsState'> {
    const lost = flags & PEER_LOST_MASK;
    if (lost > 2) reader.fail();
    return {
      lost: lost === 1 || lost === 2 ? lost : 0,
      refusesLead: (flags & PEER_REFUSES) !== 0,
      wantsState: (flags & PEER_WANTS_STATE) !== 0,
    };
  },
};
