import { assert } from '../../base/assert.ts';
import { type Codec, PEER_OWN_FLAG, peerNote, recoveryNote } from './codec.ts';
import type { Reader } from '../../base/cursor.ts';
import { f64, f64OrNone, struct, u32, u8 } from '../../base/struct.ts';
import type { AppendRequest, AppendResponse, Entry, EntryKind } from '../types.ts';

const ENTRY_KIND_MAX = 2;

export const APPEND = struct(
  { prevIndex: f64, prevTerm: f64, commit: f64, round: f64, entries: u32 },
  '[recovery note]; entries',
);
export const APPENDED_ENTRY = struct({ term: f64, dataBytes: u32, kind: u8 }, 'data');
export const APPENDED = struct({ round: f64, boot: f64, index: f64 }, '[hint, if rejected]');
/** `hintTerm` -1: the term at the hint is compacted away. */
export const APPEND_HINT = struct({ hintIndex: f64, hintTerm: f64OrNone });
const BODY = APPEND.fields;
const ENTRY = APPENDED_ENTRY.fields;
const ANSWER = APPENDED.fields;
const REJECT = PEER_OWN_FLAG;
const NO_HINT = { hintIndex: 0, hintTerm: 0 };

/** Flags: recovery note. The index of an entry follows from prevIndex and its place. */
export const appendCodec: Codec<AppendRequest> = {
  number: 3,
  flagMask: recoveryNote.mask,
  flags: recoveryNote.flags,
  bodyBytes(message) {
    let bytes = APPEND.size + recoveryNote.bytes(message) + APPENDED_ENTRY.size * message.entries.length;
    for (const entry of message.entries) bytes += entry.data.length;
    return bytes;
  },
  writeBody(writer, message) {
    writer.open(APPEND);
    writer.set(BODY.prevIndex, message.prevIndex);
    writer.set(BODY.prevTerm, message.prevTerm);
    writer.set(BODY.commit, message.commit);
    writer.set(BODY.round, message.round);
    writer.set(BODY.entries, message.entries.length);
    recoveryNote.write(writer, message);
    let index = message.prevIndex;
    for (const entry of message.entries) {
      index += 1;
      assert(entry.index === index, 'the entries of an append follow its prevIndex without a gap');
      writer.open(APPENDED_ENTRY);
      writer.set(ENTRY.term, entry.term);
      writer.set(ENTRY.dataBytes, entry.data.length);
      writer.set(ENTRY.kind, entry.kind);
      writer.raw(entry.data);
    }
  },
  readBody(reader, flags, { from, to, term }) {
    reader.open(APPEND);
    const prevIndex = reader.get(BODY.prevIndex);
    const prevTerm = reader.get(BODY.prevTerm);
    const commit = reader.get(BODY.commit);
    const round = reader.get(BODY.round);
    const count = reader.get(BODY.entries);
    const { allowedBoot, restored } = recoveryNote.read(reader, flags);
    const entries = readEntries(reader, count, prevIndex, prevTerm, term);
    return { type: 'append', from, to, term, prevIndex, prevTerm, entries, commit, round, allowedBoot, restored };
  },
};

/** Terms never fall along a log nor exceed the leader's. Raft asserts this, so violations are refused here. */
function readEntries(reader: Reader, count: number, prevIndex: number, prevTerm: number, termMax: number): Entry[] {
  const entries: Entry[] = [];
  if (count * APPENDED_ENTRY.size > reader.leftBytes || prevIndex + count > Number.MAX_SAFE_INTEGER) {
    reader.fail();
    return entries;
  }
  let lastTerm = prevTerm;
  for (let index = prevIndex + 1; index <= prevIndex + count; index++) {
    reader.open(APPENDED_ENTRY);
    const term = reader.get(ENTRY.term);
    const dataBytes = reader.get(ENTRY.dataBytes);
    const kind = reader.get(ENTRY.kind);
    if (kind > ENTRY_KIND_MAX || term < lastTerm || term > termMax) reader.fail();
    const data = reader.ownBytes(dataBytes);
    if (reader.bad) return entries;
    entries.push({ term, index, kind: kind as EntryKind, data });
    lastTerm = term;
  }
  return entries;
}

/** Flags: peer note, 8 rejected. */
export const appendResponseCodec: Codec<AppendResponse> = {
  number: 4,
  flagMask: peerNote.mask | REJECT,
  flags: (message) => peerNote.flags(message) | (message.reject ? REJECT : 0),
  bodyBytes: (message) => APPENDED.size + (message.reject ? APPEND_HINT.size : 0),
  writeBody(writer, message) {
    writer.open(APPENDED);
    writer.set(ANSWER.round, message.round);
    writer.set(ANSWER.boot, message.boot);
    writer.set(ANSWER.index, message.index);
    if (!message.reject) {
      assert(message.hintIndex === 0 && message.hintTerm === 0, 'only a rejection has a hint');
      return;
    }
    writer.record(APPEND_HINT, message);
  },
  readBody(reader, flags, { from, to, term }) {
    const reject = (flags & REJECT) !== 0;
    reader.open(APPENDED);
    const round = reader.get(ANSWER.round);
    const boot = reader.get(ANSWER.boot);
    const index = reader.get(ANSWER.index);
    const { hintIndex, hintTerm } = reject ? reader.record(APPEND_HINT) : NO_HINT;
    const { lost, refusesLead, wantsState } = peerNote.read(reader, flags);
    // Not spread: every append has such an answer, and a spread takes half as long as all the rest.
    return {
      type: 'append-response',
      from,
      to,
      term,
      round,
      boot,
      lost,
      refusesLead,
      wantsState,
      reject,
      index,
      hintIndex,
      hintTerm,
    };
  },
};
