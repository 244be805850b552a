/** Votes, and the message by which a leader lets its heir campaign at once. */
import type { Codec } from './codec.ts';
import { f64, struct } from '../../base/struct.ts';
import type { TimeoutNow, VoteRequest, VoteResponse } from '../types.ts';

export const VOTE = struct({ lastIndex: f64, lastTerm: f64 });
const PRE = 1;
const FORCE = 2;
const GRANTED = 2;

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

/** No flags, no body. */
export const timeoutNowCodec: Codec<TimeoutNow> = {
  number: 8,
  flagMask: 0,
  flags: () => 0,
  bodyBytes: () => 0,
  writeBody() {},
  readBody: (_reader, _flags, envelope) => ({ type: 'timeout-now', ...envelope }),
};
