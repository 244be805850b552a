import { type Codec, recoveryNote } from './codec.ts';
import type { Reader, Writer } from '../../base/cursor.ts';
import { f64, struct, u16 } from '../../base/struct.ts';
import type { GroupSnapshotRequest } from '../types.ts';

const ID_BYTES = 4;
export const SNAPSHOT = struct(
  { index: f64, term: f64, round: f64 },
  '[recovery note]; voters, outgoing voters, learners: each a list of ids',
);
export const ID_LIST = struct({ count: u16 }, 'ids, u32 each, ascending');

/** Flags: recovery note. */
export const snapshotCodec: Codec<GroupSnapshotRequest> = {
  number: 7,
  flagMask: recoveryNote.mask,
  flags: recoveryNote.flags,
  bodyBytes(message) {
    const { voters, votersOutgoing, learners } = message.snapshot.configuration;
    const ids = voters.length + votersOutgoing.length + learners.length;
    return SNAPSHOT.size + recoveryNote.bytes(message) + 3 * ID_LIST.size + ID_BYTES * ids;
  },
  writeBody(writer, message) {
    const { index, term, configuration } = message.snapshot;
    writer.record(SNAPSHOT, { index, term, round: message.round });
    recoveryNote.write(writer, message);
    writeIds(writer, configuration.voters);
    writeIds(writer, configuration.votersOutgoing);
    writeIds(writer, configuration.learners);
  },
  readBody(reader, flags, { from, to, term }) {
    const { index, term: snapshotTerm, round } = reader.record(SNAPSHOT);
    const note = recoveryNote.read(reader, flags);
    const voters = readIds(reader);
    const votersOutgoing = readIds(reader);
    const learners = readIds(reader);
    const snapshot = { index, term: snapshotTerm, configuration: { voters, votersOutgoing, learners } };
    return { type: 'snapshot', from, to, term, snapshot, round, ...note };
  },
};

function writeIds(writer: Writer, ids: readonly number[]): void {
  writer.record(ID_LIST, { count: ids.length });
  for (const id of ids) writer.u32(id);
}

function readIds(reader: Reader): number[] {
  const { count } = reader.record(ID_LIST);
  const ids: number[] = [];
  let before = 0;
  for (let i = 0; i < count && !reader.bad; i++) {
    const id = reader.u32();
    if (id <= before) reader.fail();
    ids.push(id);
    before = id;
  }
  return ids;
}
