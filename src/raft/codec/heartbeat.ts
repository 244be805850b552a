import {
  type Codec,
  NOTE_MASK,
  noteBytes,
  noteFlags,
  noteRestored,
  PEER_MASK,
  peerFlags,
  readLost,
  readNoteBoot,
  refusesLead,
  wantsState,
  writeNote,
} from './codec.ts';
import { f64, struct } from '../../base/struct.ts';
import type { Heartbeat, HeartbeatResponse } from '../types.ts';

export const HEARTBEAT = struct({ commit: f64, round: f64 }, '[recovery note]');
export const HEARTBEAT_ANSWER = struct({ round: f64, boot: f64 });
const BODY = HEARTBEAT.fields;
const ANSWER = HEARTBEAT_ANSWER.fields;

/** Flags: recovery note. */
export const heartbeatCodec: Codec<Heartbeat> = {
  number: 5,
  flagMask: NOTE_MASK,
  flags: noteFlags,
  bodyBytes: (message) => HEARTBEAT.size + noteBytes(message),
  writeBody(writer, message) {
    writer.open(HEARTBEAT);
    writer.set(BODY.commit, message.commit);
    writer.set(BODY.round, message.round);
    writeNote(writer, message);
  },
  readBody(reader, flags, { from, to, term }) {
    reader.open(HEARTBEAT);
    const commit = reader.get(BODY.commit);
    const round = reader.get(BODY.round);
    const allowedBoot = readNoteBoot(reader, flags);
    return { type: 'heartbeat', from, to, term, commit, round, allowedBoot, restored: noteRestored(flags) };
  },
};

/** Flags: peer note. */
export const heartbeatResponseCodec: Codec<HeartbeatResponse> = {
  number: 6,
  flagMask: PEER_MASK,
  flags: peerFlags,
  bodyBytes: () => HEARTBEAT_ANSWER.size,
  writeBody(writer, message) {
    writer.open(HEARTBEAT_ANSWER);
    writer.set(ANSWER.round, message.round);
    writer.set(ANSWER.boot, message.boot);
  },
  readBody(reader, flags, { from, to, term }) {
    reader.open(HEARTBEAT_ANSWER);
    const round = reader.get(ANSWER.round);
    const boot = reader.get(ANSWER.boot);
    const note = { lost: readLost(reader, flags), refusesLead: refusesLead(flags), wantsState: wantsState(flags) };
    return { type: 'heartbeat-response', from, to, term, round, boot, ...note };
  },
};
