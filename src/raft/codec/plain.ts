/** Messages without a note: votes, the one by which a leader lets its heir campaign at once, and read indexes. */
import type { Codec } from './codec.ts';
import { f64, struct } from '../../base/struct.ts';
import type { ReadIndexRequest, ReadIndexResponse, TimeoutNow, VoteRequest, VoteResponse } from '../types.ts';

export const VOTE = struct({ lastIndex: f64, lastTerm: f64 });
const PRE = 1;
const FORCE = 2;
const GRANTED = 2;
const NO_FLAGS = { flagMask: 0, flags: () => 0 } as const;

/** Flags: 1 pre-vote, 2 forced by the leader. */
export const voteCodec: Codec<VoteRequest> = {
  number: 1,
  flagMask: PRE | FORCE,
  flags: (message) => (message.pre ? PRE : 0) | (message.force ? FORCE : 0),
  bodyBytes: () => VOTE.size,
  writeBody(writer, message) {
    writer.record(VOTE, message);
  },
  readBody: (reader, flags, envelope) => ({
    type: 'vote',
    ...envelope,
    pre: (flags & PRE) !== 0,
    force: (flags & FORCE) !== 0,
    ...reader.record(VOTE),
  }),
};

/** Flags: 1 pre-vote, 2 granted. No body. */
export const voteResponseCodec: Codec<VoteResponse> = {
  number: 2,
  flagMask: PRE | GRANTED,
  flags: (message) => (message.pre ? PRE : 0) | (message.granted ? GRANTED : 0),
  bodyBytes: () => 0,
  writeBody() {},
  readBody: (_reader, flags, envelope) => ({
    type: 'vote-response',
    ...envelope,
    pre: (flags & PRE) !== 0,
    granted: (flags & GRANTED) !== 0,
  }),
};

/** No body. */
export const timeoutNowCodec: Codec<TimeoutNow> = {
  number: 8,
  ...NO_FLAGS,
  bodyBytes: () => 0,
  writeBody() {},
  readBody: (_reader, _flags, envelope) => ({ type: 'timeout-now', ...envelope }),
};

export const READ_INDEX = struct({ context: f64 });
export const READ_INDEX_ANSWER = struct({ context: f64, index: f64 });

export const readIndexCodec: Codec<ReadIndexRequest> = {
  number: 9,
  ...NO_FLAGS,
  bodyBytes: () => READ_INDEX.size,
  writeBody(writer, message) {
    writer.record(READ_INDEX, message);
  },
  readBody: (reader, _flags, envelope) => ({ type: 'read-index', ...envelope, ...reader.record(READ_INDEX) }),
};

export const readIndexResponseCodec: Codec<ReadIndexResponse> = {
  number: 10,
  ...NO_FLAGS,
  bodyBytes: () => READ_INDEX_ANSWER.size,
  writeBody(writer, message) {
    writer.record(READ_INDEX_ANSWER, message);
  },
  readBody: (reader, _flags, envelope) => ({
    type: 'read-index-response',
    ...envelope,
    ...reader.record(READ_INDEX_ANSWER),
  }),
};
