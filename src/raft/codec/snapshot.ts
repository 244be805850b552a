import { NOTE_MASK, noteBytes, noteFlags, noteRestored, readNoteBoot, writeNote } from './codec.ts';
import type { Codec } from './codec.ts';
import type { Reader, Writer } from '../../base/cursor.ts';
import type { SnapshotRequest } from '../types.ts';

/**
 * Flags: recovery note. Body: index f64 | term f64 | round f64 | [allowedBoot f64] | three lists of node ids (voters,
 * outgoing, learners), each count u16 and ids u32, ascending.
 */
export const snapshotCodec: Codec<SnapshotRequest> = {
  number: 7,
  flagMask: NOTE_MASK,
  flags: noteFlags,
  bodyBytes(message) {
    const { voters, votersOutgoing, learners } = message.snapshot.configuration;
    return 30 + noteBytes(message) + 4 * (voters.length + votersOutgoing.length + learners.length);
  },
  writeBody(writer, message) {
    const { index, term, configuration } = message.snapshot;
    writer.int53(index);
    writer.int53(term);
    writer.int53(message.round);
    writeNote(writer, message);
    writeIds(writer, configuration.voters);
    writeIds(writer, configuration.votersOutgoing);
    writeIds(writer, configuration.learners);
  },
  readBody(reader, flags, { from, to, term }) {
    const index = reader.int53();
    const snapshotTerm = reader.int53();
    const round = reader.int53();
    const allowedBoot = readNoteBoot(reader, flags);
    const voters = readIds(reader);
    const votersOutgoing = readIds(reader);
    const learners = readIds(reader);
    const snapshot = { index, term: snapshotTerm, configuration: { voters, votersOutgoing, learners } };
    return { type: 'snapshot', from, to, term, snapshot, round, allowedBoot, restored: noteRestored(flags) };
  },
};

function writeIds(writer: Writer, ids: readonly number[]): void {
  writer.u16(ids.length);
  for (const id of ids) writer.u32(id);
}

function readIds(reader: Reader): number[] {
  const count = reader.u16();
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
