import {
  NOTE_MASK,
  PEER_MASK,
  noteBytes,
  noteFlags,
  noteRestored,
  peerFlags,
  readLost,
  readNoteBoot,
  refusesLead,
  writeNote,
} from './codec.ts';
import type { Codec } from './codec.ts';
import type { Heartbeat, HeartbeatResponse } from '../types.ts';

/** Flags: recovery note. Body: commit f64 | round f64 | [allowedBoot f64]. */
export const heartbeatCodec: Codec<Heartbeat> = {
  number: 5,
  flagMask: NOTE_MASK,
  flags: noteFlags,
  bodyBytes: (message) => 16 + noteBytes(message),
  writeBody(writer, message) {
    writer.int53(message.commit);
    writer.int53(message.round);
    writeNote(writer, message);
  },
  readBody: (reader, flags, { from, to, term }) => ({
    type: 'heartbeat',
    from,
    to,
    term,
    commit: reader.int53(),
    round: reader.int53(),
    allowedBoot: readNoteBoot(reader, flags),
    restored: noteRestored(flags),
  }),
};

/** Flags: peer note. Body: round f64 | boot f64. */
export const heartbeatResponseCodec: Codec<HeartbeatResponse> = {
  number: 6,
  flagMask: PEER_MASK,
  flags: peerFlags,
  bodyBytes: () => 16,
  writeBody(writer, message) {
    writer.int53(message.round);
    writer.int53(message.boot);
  },
  readBody: (reader, flags, { from, to, term }) => ({
    type: 'heartbeat-response',
    from,
    to,
    term,
    round: reader.int53(),
    boot: reader.int53(),
    lost: readLost(reader, flags),
    refusesLead: refusesLead(flags),
  }),
};
