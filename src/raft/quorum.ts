import type { Configuration } from './types.ts';

/** Reused between calls (the core is synchronous); avoids an array per acknowledgement. */
const scratch: number[] = [];

/** Largest value that a majority of `ids` has reached (§3.6); Infinity when there are no ids: an empty half agrees. */
export function majorityValue(ids: readonly number[], valueOf: (id: number) => number): number {
  const count = ids.length;
  if (count === 0) return Infinity;
  scratch.length = 0;
  for (let at = 0; at < count; at += 1) {
    // Insertion sort, ascending: groups have a handful of voters.
    const value = valueOf(ids[at]!);
    let slot = at;
    while (slot > 0 && scratch[slot - 1]! > value) {
      scratch[slot] = scratch[slot - 1]!;
      slot -= 1;
    }
    scratch[slot] = value;
  }
  return scratch[count - ((count >> 1) + 1)]!;
}

/** While joint, both halves must agree (§4.3). */
export function quorumValue(configuration: Configuration, valueOf: (id: number) => number): number {
  const incoming = majorityValue(configuration.voters, valueOf);
  if (configuration.votersOutgoing.length === 0) return incoming;
  return Math.min(incoming, majorityValue(configuration.votersOutgoing, valueOf));
}

/** 1 granted, -1 refused, 0 not answered. */
export type Ballot = -1 | 0 | 1;
export type VoteOutcome = 'won' | 'lost' | 'pending';

function majorityOutcome(ids: readonly number[], ballotOf: (id: number) => Ballot): VoteOutcome {
  let granted = 0;
  let refused = 0;
  for (const id of ids) {
    const ballot = ballotOf(id);
    if (ballot === 1) granted += 1;
    else if (ballot === -1) refused += 1;
  }
  const needed = (ids.length >> 1) + 1;
  if (ids.length === 0 || granted >= needed) return 'won';
  return ids.length - refused < needed ? 'lost' : 'pending';
}

export function voteOutcome(configuration: Configuration, ballotOf: (id: number) => Ballot): VoteOutcome {
  const incoming = majorityOutcome(configuration.voters, ballotOf);
  const outgoing = majorityOutcome(configuration.votersOutgoing, ballotOf);
  if (incoming === 'lost' || outgoing === 'lost') return 'lost';
  return incoming === 'won' && outgoing === 'won' ? 'won' : 'pending';
}
