import { assert } from '../../base/assert.ts';
import {
  NOTE_MASK,
  PEER_FLAGS_END,
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
import type { Reader } from '../../base/cursor.ts';
import type { AppendRequest, AppendResponse, Entry, EntryKind } from '../types.ts';

const ENTRY_KIND_MAX = 2;

const FIXED_BYTES = 36;
const ENTRY_HEAD_BYTES = 13;
const REJECT = PEER_FLAGS_END;

/**
 * Flags: recovery note. Body: prevIndex f64 | prevTerm f64 | commit f64 | round f64 | entries u32 | [allowedBoot f64] |
 * entries. An entry: term f64 | dataBytes u32 | kind u8 | data. Its index follows from prevIndex and its place.
 */
export const appendCodec: Codec<AppendRequest> = {
  number: 3,
  flagMask: NOTE_MASK,
  flags: noteFlags,
  bodyBytes(message) {
    let bytes = FIXED_BYTES + noteBytes(message) + ENTRY_HEAD_BYTES * message.entries.length;
    for (const entry of message.entries) bytes += entry.data.length;
    return bytes;
  },
  writeBody(writer, message) {
    writer.int53(message.prevIndex);
    writer.int53(message.prevTerm);
    writer.int53(message.commit);
    writer.int53(message.round);
    writer.u32(message.entries.length);
    writeNote(writer, message);
    let index = message.prevIndex;
    for (const entry of message.entries) {
      index += 1;
      assert(entry.index === index, 'the entries of an append follow its prevIndex without a gap');
      writer.int53(entry.term);
      writer.u32(entry.data.length);
      writer.u8(entry.kind);
      writer.raw(entry.data);
    }
  },
  readBody(reader, flags, { from, to, term }) {
    const prevIndex = reader.int53();
    const prevTerm = reader.int53();
    const commit = reader.int53();
    const round = reader.int53();
    const count = reader.u32();
    const allowedBoot = readNoteBoot(reader, flags);
    const entries = readEntries(reader, count, prevIndex, prevTerm, term);
    const restored = noteRestored(flags);
    return { type: 'append', from, to, term, prevIndex, prevTerm, entries, commit, round, allowedBoot, restored };
  },
};

/** Terms never fall along a log nor exceed the leader's. Raft asserts this, so violations are refused here. */
function readEntries(reader: Reader, count: number, prevIndex: number, prevTerm: number, termMax: number): Entry[] {
  const entries: Entry[] = [];
  if (count * ENTRY_HEAD_BYTES > reader.leftBytes || prevIndex + count > Number.MAX_SAFE_INTEGER) {
    reader.fail();
    return entries;
  }
  let lastTerm = prevTerm;
  for (let index = prevIndex + 1; index <= prevIndex + count; index++) {
    const term = reader.int53(lastTerm);
    const dataBytes = reader.u32();
    const kind = reader.u8();
    if (kind > ENTRY_KIND_MAX || term > termMax) reader.fail();
    const data = reader.ownBytes(dataBytes);
    if (reader.bad) return entries;
    entries.push({ term, index, kind: kind as EntryKind, data });
    lastTerm = term;
  }
  return entries;
}

/**
 * Flags: peer note, 8 rejected. Body: round f64 | boot f64 | index f64, and when rejected hintIndex f64 | hintTerm f64.
 */
export const appendResponseCodec: Codec<AppendResponse> = {
  number: 4,
  flagMask: PEER_MASK | REJECT,
  flags: (message) => peerFlags(message) | (message.reject ? REJECT : 0),
  bodyBytes: (message) => (message.reject ? 40 : 24),
  writeBody(writer, message) {
    writer.int53(message.round);
    writer.int53(message.boot);
    writer.int53(message.index);
    if (!message.reject) {
      assert(message.hintIndex === 0 && message.hintTerm === 0, 'only a rejection has a hint');
      return;
    }
    writer.int53(message.hintIndex);
    writer.int53(message.hintTerm);
  },
  readBody(reader, flags, { from, to, term }) {
    const reject = (flags & REJECT) !== 0;
    return {
      type: 'append-response',
      from,
      to,
      term,
      round: reader.int53(),
      boot: reader.int53(),
      lost: readLost(reader, flags),
      refusesLead: refusesLead(flags),
      reject,
      index: reader.int53(),
      hintIndex: reject ? reader.int53() : 0,
      // -1: the term at the hint is compacted away.
      hintTerm: reject ? reader.int53(-1) : 0,
    };
  },
};
