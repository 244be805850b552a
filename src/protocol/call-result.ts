/** How an operator's call about a group ended. The HTTP side turns it into a status and a body. */
import { assert } from '../base/assert.ts';
import { decodeUtf8, encodeUtf8 } from '../base/utf8.ts';
import { A, B } from './generic-fields.ts';
import type { ResultCodec } from './operation.ts';

const OUTCOMES = [
  'done',
  'nothing-to-do',
  'invalid',
  'not-found',
  /** Not by this node, or not now. */
  'refused',
  /** The node that should take over leadership declines; another one may accept. */
  'declined',
  'failed',
  'store-failed',
  'retry',
  'disk-full',
] as const;

export type CallOutcome = (typeof OUTCOMES)[number];

export interface CallResult {
  readonly outcome: CallOutcome;
  /** JSON, or one sentence; empty: none. */
  readonly body: Readonly<Record<string, unknown>> | string;
}

export const sentence = (outcome: CallOutcome, text: string): CallResult => ({ outcome, body: `${text}\n` });

/** The 409 of a call that only a leader can serve. */
export function notLeader(
  { id, raft: { leader } }: { readonly id: number; readonly raft: { readonly leader: number } },
  more: Record<string, unknown>,
): CallResult {
  const current = leader === 0 ? null : leader;
  const body = { raft_group_id: id, current_leader: current, leader: current, ...more, reason: 'not leader' };
  return { outcome: 'refused', body };
}

/** The same after transport in the frame, where the JSON is text. */
export interface CallAnswer {
  readonly outcome: CallOutcome;
  readonly isJson: boolean;
  readonly body: string;
}

export const CALL_RESULT: ResultCodec<CallResult, CallAnswer> = {
  write(reply, { outcome, body }) {
    reply[A] = OUTCOMES.indexOf(outcome);
    if (body === '') return;
    reply[B] = typeof body === 'string' ? 0 : 1;
    reply.body = encodeUtf8(typeof body === 'string' ? body : JSON.stringify(body));
  },
  read(reply) {
    const outcome = OUTCOMES[reply[A]];
    assert(outcome !== undefined, `${reply[A]} is the outcome of a call`);
    return { outcome, isJson: reply[B] === 1, body: reply.body === undefined ? '' : decodeUtf8(reply.body) };
  },
};
