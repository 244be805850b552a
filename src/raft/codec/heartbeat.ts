import { type Codec, peerNote, recoveryNote } from './codec.ts';
import { f64, struct } from '../../base/struct.ts';
import type { Heartbeat, HeartbeatResponse } from '../types.ts';

export const HEARTBEAT = struct({ commit: f64, round: f64 }, '[recovery note]');
export const HEARTBEAT_ANSWER = struct({ round: f64, boot: f64 });
const BODY = HEARTBEAT.fields;
const ANSWER = HEARTBEAT_ANSWER.fields;

/** Flags: recovery note. */
export const heartbeatCodec: Codec<Heartbeat> = {
  number: 5,
  flagMask: recoveryNote.mask,
  flags: recoveryNote.flags,
  bodyBytes: (message) => HEARTBEAT.size + recoveryNote.bytes(message),
  writeBody(writer, message) {
    writer.open(HEARTBEAT);
    writer.set(BODY.commit, message.commit);
    writer.set(BODY.round, message.round);
    recoveryNote.write(writer, message);
  },
  readBody(reader, flags, { from, to, term }) {
    reader.open(HEARTBEAT);
    const commit = reader.get(BODY.commit);
    const round = reader.get(BODY.round);
    const { allowedBoot, restored } = recoveryNote.read(reader, flags);
    return { type: 'heartbeat', from, to, term, commit, round, allowedBoot, restored };
  },
};

/** Flags: peer note. */
export const heartbeatResponseCodec: Codec<HeartbeatResponse> = {
  number: 6,
  flagMask: peerNote.mask,
  flags: peerNote.flags,
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
    return { type: 'heartbeat-response', from, to, term, round, boot, ...peerNote.read(reader, flags) };
  },
};
