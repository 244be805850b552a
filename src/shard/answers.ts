/** Answers to operators: a status and JSON, or one sentence. */
import type { Group } from '../group/group.ts';

export interface Answer {
  readonly status: number;
  /** Empty: none. */
  readonly body: Record<string, unknown> | string;
}

export const sentence = (status: number, text: string): Answer => ({ status, body: `${text}\n` });

/** The 409 of a call that only a leader can serve. */
export function notLeader(group: Group, more: Record<string, unknown>): Answer {
  const leader = group.raft.leader;
  return {
    status: 409,
    body: {
      raft_group_id: group.id,
      current_leader: leader === 0 ? null : leader,
      leader: leader === 0 ? null : leader,
      ...more,
      reason: 'not leader',
    },
  };
}
