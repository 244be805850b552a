import { advanceCommit } from './commit.ts';
import { voteOutcome } from './quorum.ts';
import { becomeCandidate, becomeFollower, becomeLeader, becomePreCandidate } from './roles.ts';
import type { Core } from './core.ts';
import type { ElectionPriority, VoteRequest, VoteResponse } from './types.ts';

/** §3.4 with pre-vote (§9.6). A leader, a learner, removed or draining ones and one without its log do not campaign. */
export function campaign(core: Core): void {
  if (!mayCampaign(core)) return;
  core.forced = false;
  becomePreCandidate(core);
  requestVotes(core, true);
  core.ballots.set(core.id, 1);
  countBallots(core);
}

/** The leader requested it, so the lease of §4.2.3 is over and the pre-vote would only cost a round trip (§3.10). */
export function campaignForced(core: Core): void {
  if (!mayCampaign(core)) return;
  core.forced = true;
  startElection(core);
}

/**
 * A vote is granted at most once per term, to a log that is at least as up to date (§3.6.1), and only by a node that
 * still has its own log: otherwise entries that it acknowledged could be lost.
 */
export function onVoteRequest(core: Core, message: VoteRequest): void {
  const free = message.pre
    ? message.term > core.term
    : core.vote === message.from || (core.vote === 0 && core.leader === 0);
  const granted = free && core.mayVote && core.log.isUpToDate(message.lastIndex, message.lastTerm);
  const response: VoteResponse = {
    type: 'vote-response',
    ...core.envelope(message.from),
    // §9.6: granting a pre-vote names the candidate's next term, refusing it names this node's own.
    term: granted ? message.term : core.term,
    pre: message.pre,
    granted,
  };
  if (message.pre || !granted) {
    core.send.push(response);
    return;
  }
  core.electionElapsed = 0;
  core.vote = message.from;
  // Invariant 4: the vote is sent only once it is on disk, or a crash would let this node vote again (§3.8).
  core.afterPersist.push(response);
}

export function onVoteResponse(core: Core, message: VoteResponse): void {
  if (core.role !== (message.pre ? 'pre-candidate' : 'candidate')) return;
  // A grant of an earlier pre-vote, from before this node's term advanced.
  if (message.pre && message.granted && message.term !== core.term + 1) return;
  if (!core.ballots.has(message.from)) core.ballots.set(message.from, message.granted ? 1 : -1);
  countBallots(core);
}

/** The disk has this candidate's own vote, which counts only now (§3.8). */
export function onOwnVoteDurable(core: Core): void {
  if (core.role !== 'candidate' || core.ballots.has(core.id)) return;
  core.ballots.set(core.id, 1);
  countBallots(core);
}

/**
 * none: gives up a running election. This node may be the only one that could win, and then the group has no leader
 * until the priority changes: an operator who takes a node out of service must be able to rely on it. A sole voter
 * ignores the priority, because no other node could take the group.
 */
export function setElectionPriority(core: Core, electionPriority: ElectionPriority): void {
  core.electionPriority = electionPriority;
  core.drawElectionTimeout();
  const asks = core.role === 'pre-candidate' || core.role === 'candidate';
  if (asks && isBarred(core)) becomeFollower(core, core.term, 0);
}

function isBarred(core: Core): boolean {
  return core.electionPriority === 'none' && !core.isAlone();
}

export function mayCampaign(core: Core): boolean {
  if (isBarred(core)) return false;
  return core.role !== 'leader' && core.mayVote && core.mayBeNeededAsLeader() && !core.isReplaced;
}

function startElection(core: Core): void {
  becomeCandidate(core);
  requestVotes(core, false);
}

function requestVotes(core: Core, pre: boolean): void {
  const { voters, votersOutgoing } = core.configuration;
  const asked = new Set([...voters, ...votersOutgoing]);
  for (const to of asked) {
    if (to === core.id) continue;
    core.send.push({
      type: 'vote',
      ...core.envelope(to),
      term: pre ? core.term + 1 : core.term,
      pre,
      force: core.forced,
      lastIndex: core.log.last,
      lastTerm: core.log.lastTerm,
    });
  }
}

function countBallots(core: Core): void {
  const outcome = voteOutcome(core.configuration, (node) => core.ballots.get(node) ?? 0);
  if (outcome === 'lost') {
    becomeFollower(core, core.term, 0);
  } else if (outcome === 'won') {
    if (core.role === 'pre-candidate') {
      startElection(core);
    } else if (core.ballots.get(core.id) === 1) {
      // The others may have elected this node before its own disk has the vote; it waits for the disk (§3.8).
      becomeLeader(core);
      advanceCommit(core);
    }
  }
}
