/** Answers to operators: a status and JSON, or one sentence. */
import type { CallOutcome, CallResult } from '../protocol/call-result.ts';
import type { Group } from '../group/group.ts';

export const sentence = (outcome: CallOutcome, text: string): CallResult => ({ outcome, body: `${text}\n` });

/** The 409 of a call that only a leader can serve. */
export function notLeader(group: Group, more: Record<string, unknown>): CallResult {
  const leader = group.raft.leader;
  return {
    outcome: 'refused',
    body: {
      raft_group_id: group.id,
      current_leader: leader === 0 ? null : leader,
      leader: leader === 0 ? null : leader,
      ...more,
      reason: 'not leader',
    },
  };
}
