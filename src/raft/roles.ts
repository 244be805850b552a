import { assert } from '../base/assert.ts';
import { decodeConfiguration } from './configuration.ts';
import { entryBytes } from './log.ts';
import { refuseReads } from './read-index.ts';
import { type Entry, ENTRY_CONFIG, ENTRY_EMPTY, type EntryKind } from './types.ts';
import type { Core } from './core.ts';

const NO_DATA = new Uint8Array(0);

/** §3.3: a new term clears the vote; the same term never does, or a node could vote twice. */
export function becomeFollower(core: Core, term: number, leader: number): void {
  assert(term >= core.term, `term would go back from ${core.term} to ${term}`);
  if (term > core.term) {
    core.term = term;
    core.vote = 0;
  }
  enterRole(core, 'follower', leader);
}

/** §9.6: asks whether an election could be won, without changing term or vote. */
export function becomePreCandidate(core: Core): void {
  enterRole(core, 'pre-candidate', 0);
}

export function becomeCandidate(core: Core): void {
  assert(core.mayVote, 'a node that lost its log campaigns');
  core.term += 1;
  core.vote = core.id;
  enterRole(core, 'candidate', 0);
}

/** §3.4, §6.4: committing the empty entry commits everything before it (§3.6.2) and allows reads. */
export function becomeLeader(core: Core): void {
  assert(core.role === 'candidate', `a ${core.role} becomes leader`);
  assert(core.durableTerm === core.term && core.durableVote === core.id, 'a leader whose own vote is not durable');
  enterRole(core, 'leader', core.id);
  core.syncPeers();
  core.uncommittedBytes = 0;
  core.termStart = core.log.last + 1;
  appendAsLeader(core, ENTRY_EMPTY, NO_DATA);
}

/** A leader only ever appends to its log (§3.5). */
export function appendAsLeader(core: Core, kind: EntryKind, data: Uint8Array): Entry {
  const entry: Entry = { term: core.term, index: core.log.last + 1, kind, data };
  core.log.append(entry);
  core.uncommittedBytes += entryBytes(entry);
  core.wantReplicate = true;
  if (kind === ENTRY_CONFIG) core.adopt(entry.index, decodeConfiguration(data));
  return entry;
}

function enterRole(core: Core, role: Core['role'], leader: number): void {
  const left = core.role;
  core.role = role;
  core.leader = leader;
  core.electionElapsed = 0;
  core.writingTicks = 0;
  core.drawElectionTimeout();
  core.ballots.clear();
  core.checkedRound = core.round;
  core.commitChecked = core.log.commit;
  core.commitBefore = core.log.commit;
  core.commitSeen = core.log.commit;
  core.stallTicks = 0;
  core.failedTransfers = 0;
  if (left === 'leader' && role !== 'leader') {
    core.peers = [];
    core.transferee = 0;
    core.revertAllowed.clear();
    core.wantReplicate = false;
    core.wantHeartbeat = false;
    refuseReads(core);
  }
}
