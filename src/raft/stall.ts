import { entryBytes } from './log.ts';
import { quorumValue } from './quorum.ts';
import { becomeFollower } from './roles.ts';
import type { Core } from './core.ts';
import type { Progress } from './progress.ts';

/**
 * A leader whose followers answer but who commits nothing: its entries do not get through, because the links carry
 * heartbeats and little else, or a leadership transfer that it owes does not finish. It transfers leadership to the
 * follower with the most up-to-date log. Nothing acknowledged is lost, because only a log with everything committed
 * wins (§3.6.1); unacknowledged entries may be.
 *
 * The suspicion may be wrong: the entry is large, or every link is thin. So the node accepts no leadership for a while,
 * and its patience doubles each time until something is committed. Eventually one leader waits long enough.
 */

/** Election timeouts without a commit: elections themselves take two. */
const STALL_TIMEOUTS = 3;
/** Additional allowance for an entry, at about a MiB per second. */
const ENTRY_BYTES_PER_TICK = 100 * 1024;
/** Election timeouts in which the former leader neither accepts leadership nor campaigns first. */
const SHY_TIMEOUTS = 20;
const PATIENCE_MAX = 64;
/** Failed transfers in a row after which a node that must not lead steps down without one. */
const FAILED_TRANSFERS_MAX = 2;

/** Leader, once per tick: counts how long nothing has been committed although something waits. */
export function noteCommits(core: Core): void {
  const { commit, last } = core.log;
  if (commit > core.commitSeen) {
    core.commitSeen = commit;
    core.stallTicks = 0;
    core.patience = 1;
  } else if (commit < last) core.stallTicks += 1;
  else core.stallTicks = 0;
}

/** Leader, at each quorum check that succeeded: gives up leadership when stalled. */
export function endStall(core: Core): void {
  // Entry sizes may have to be read from disk, so they are read only when they matter.
  if (!core.isStalled(core.patience * STALL_TIMEOUTS * core.config.electionTicks)) return;
  if (!core.isStalled(patienceTicks(core))) return;
  const couldCommit = quorumValue(core.configuration, (node) => {
    const peer = core.peer(node);
    return node === core.id || (peer !== undefined && isFollowing(core, peer)) ? 1 : 0;
  });
  // A new voter that is being filled takes as long under any leader.
  if (couldCommit >= 1) abdicate(core);
}

/** A transfer did not finish in time. */
export function onTransferFailed(core: Core): void {
  core.failedTransfers += 1;
  if (core.electionPriority !== 'normal' && core.failedTransfers >= FAILED_TRANSFERS_MAX) abdicate(core);
}

function patienceTicks(core: Core): number {
  if (core.log.commit === core.log.last) return Infinity;
  // A follower's first entries after an election are below the known commit index.
  const following = core.peers.filter(({ counts, state }) => counts && state !== 'snapshot');
  const awaited = following.map(({ state, next, match }) => (state === 'probe' ? next : match + 1));
  const bytes = Math.max(...[core.log.commit + 1, ...awaited].map((index) => bytesAt(core, index)));
  return core.patience * (STALL_TIMEOUTS * core.config.electionTicks + bytes / ENTRY_BYTES_PER_TICK);
}

function bytesAt(core: Core, index: number): number {
  if (index <= core.log.snapshotIndex) return 0;
  const [entry] = core.log.entriesFrom(index, 1);
  return entry === undefined ? 0 : entryBytes(entry);
}

/** Answers, and receives entries rather than a snapshot. */
function isFollowing(core: Core, peer: Progress): boolean {
  return peer.counts && peer.state !== 'snapshot' && (peer.wasActive || peer.answeredSince(core.checkedRound));
}

/** Does nothing when no other node could take over. */
function abdicate(core: Core): void {
  const heirs = core.peers.filter(
    (peer) => core.configuration.voters.includes(peer.node) && isFollowing(core, peer) && !peer.refusesLead,
  );
  const [first, ...others] = heirs;
  if (first === undefined) return;
  const heir = others.reduce((best, peer) => (peer.match > best.match ? peer : best), first);
  core.abdications += 1;
  core.patience = Math.min(PATIENCE_MAX, 2 * core.patience);
  core.shyUntil = core.ticksSinceBoot + SHY_TIMEOUTS * core.config.electionTicks;
  core.send.push({ type: 'timeout-now', ...core.envelope(heir.node) });
  becomeFollower(core, core.term, 0);
}
