import { assert } from '../base/assert.ts';
import { planted } from '../base/planted.ts';
import { tick } from './clock.ts';
import { advanceCommit, proposeConfiguration } from './commit.ts';
import { Core } from './core.ts';
import { campaign, onOwnVoteDurable, setElectionPriority } from './election.ts';
import { entryBytes } from './log.ts';
import { readIndex } from './read-index.ts';
import { allowNextRevert, loseLog } from './recovery.ts';
import { sendToPeers, snapshotEnded } from './replication.ts';
import { appendAsLeader } from './roles.ts';
import { step } from './step.ts';
import { transferLeadership } from './transfer.ts';
import {
  type Configuration,
  type ElectionPriority,
  type Entry,
  ENTRY_DATA,
  ENTRY_EMPTY,
  ENTRY_OVERHEAD_BYTES,
  type Message,
  type PeerStatus,
  type RaftConfig,
  type ReadState,
  type Ready,
  type Role,
  type TransferOutcome,
} from './types.ts';
import type { MembershipTarget } from './configuration.ts';

const NO_ENTRIES: readonly Entry[] = [];
const NO_MESSAGES: readonly Message[] = [];
const NO_READS: readonly ReadState[] = [];

/**
 * One node of one Raft group: the only entry point of this folder. Deterministic: no clock, randomness or I/O; time
 * enters by `tick`. Inputs accumulate until `take` returns everything that they caused, so many inputs share one disk
 * write. `Ready` describes the host's duties.
 */
export class Raft {
  readonly #core: Core;
  /** The one disk write that may be in flight, and its content. */
  #inflight = false;
  #inflightTerm = 0;
  #inflightVote = 0;
  #inflightIndex = 0;

  constructor(config: RaftConfig) {
    this.#core = new Core(config);
  }

  get term(): number {
    return this.#core.term;
  }
  get leader(): number {
    return this.#core.leader;
  }
  get role(): Role {
    return this.#core.role;
  }
  get commitIndex(): number {
    return this.#core.log.commit;
  }
  get lastIndex(): number {
    return this.#core.log.last;
  }
  /** Counts this leader's entries, including the overhead of each. */
  get uncommittedBytes(): number {
    return this.#core.uncommittedBytes;
  }
  /** Last compacted index. */
  get compactedIndex(): number {
    return this.#core.log.snapshotIndex;
  }
  /** The configuration in force: the last one in the log, committed or not. */
  get configuration(): Configuration {
    return this.#core.configuration;
  }
  /** Index of the entry of the configuration in force. */
  get configurationIndex(): number {
    return this.#core.configurationIndex;
  }
  get appliedIndex(): number {
    return this.#core.applied;
  }
  /** Turns false when a leader shows that the log is lost, and true when one restored it; hosts keep it on disk. */
  get mayVote(): boolean {
    return this.#core.mayVote;
  }
  /** Whether its log is lost; `allowed`: a leader was told to refill it. */
  get lostLog(): 'no' | 'asking' | 'allowed' {
    const { lost } = this.#core;
    if (lost === 0) return 'no';
    return lost === 1 ? 'asking' : 'allowed';
  }
  /** Target of a running transfer; 0 = none. */
  get transferee(): number {
    return this.#core.transferee;
  }
  /** Leaderships that this node gave up because nothing was committed, or because no node took over; see stall.ts. */
  get abdications(): number {
    return this.#core.abdications;
  }
  /** It did so recently and accepts no leadership now. */
  get isShy(): boolean {
    return this.#core.isShy;
  }
  get electionPriority(): ElectionPriority {
    return this.#core.electionPriority;
  }
  set electionPriority(value: ElectionPriority) {
    if (value !== this.#core.electionPriority && !planted('mark-forgotten')) setElectionPriority(this.#core, value);
  }

  /** The host's applied state is damaged: leaders are asked for a snapshot until one is installed. See repair.ts. */
  get wantsState(): boolean {
    return this.#core.wantsState;
  }
  wantState(isWanted: boolean): void {
    this.#core.wantsState = isWanted;
  }
  /** The log behind this index is needed by a state that is being installed: it may not be compacted further. */
  get compactableIndex(): number {
    return this.#core.repairing?.index ?? Infinity;
  }

  tick(): void {
    tick(this.#core);
  }

  /** Handles a peer's message. Messages may be lost, duplicated, late and reordered, but not forged or damaged. */
  step(message: Message): void {
    if (message.to !== this.#core.id) assert(false, `node ${this.#core.id} got a message for node ${message.to}`);
    step(this.#core, message);
  }

  /** Starts an election now (with pre-vote), as if the leader had been silent for too long. */
  campaign(): void {
    campaign(this.#core);
  }

  /**
   * Appends to the log and returns the index. Returns 0 when this node does not lead, is handing over, has too much
   * uncommitted, or the data does not fit into a message.
   */
  propose(data: Uint8Array): number {
    const core = this.#core;
    if (data.length > core.config.maxEntryBytes) return 0;
    if (core.role !== 'leader' || core.transferee !== 0 || !core.isVoter()) return 0;
    const bytes = core.uncommittedBytes + data.length + ENTRY_OVERHEAD_BYTES;
    if (bytes > core.config.maxUncommittedBytes && core.uncommittedBytes > 0) return 0;
    return appendAsLeader(core, ENTRY_DATA, data).index;
  }

  /**
   * Index of the first entry of the change, or 0 when it cannot start now; see commit.ts. The change is done when a
   * configuration with an empty outgoing half is committed. The target must name a voter and only positive ids.
   */
  proposeConfiguration(target: MembershipTarget): number {
    return proposeConfiguration(this.#core, target);
  }

  transferLeadership(to: number): TransferOutcome {
    return transferLeadership(this.#core, to);
  }

  /** Leader only, once per call: `node` may return with an older or empty log. False when not leader or unknown. */
  allowNextRevert(node: number): boolean {
    return allowNextRevert(this.#core, node);
  }

  /** The host knows that this node's disk is not the one that made earlier acknowledgements. */
  loseLog(): void {
    loseLog(this.#core);
  }

  /** Asks for a read index; the answer comes as a ReadState, or never if a message is lost. False: no leader to ask. */
  readIndex(context: number): boolean {
    return readIndex(this.#core, context);
  }

  /** The transfer of a snapshot to `node` failed. */
  snapshotFailed(node: number): void {
    snapshotEnded(this.#core, node);
  }

  /** `node` has the snapshot up to `index`; its transfer is over. */
  snapshotInstalled(node: number, index: number): void {
    snapshotEnded(this.#core, node, index);
  }

  /** Configuration in force once `index` (at or above the applied one) is applied; part of a snapshot. */
  configurationAt(index: number): Configuration {
    return this.#core.configurationAt(index);
  }

  /** Term of a log entry (or of the snapshot index), -1 when it is compacted or beyond the end. */
  termAt(index: number): number {
    return this.#core.log.term(index);
  }

  /** The leader's view of the other nodes; empty on other nodes. */
  peers(): PeerStatus[] {
    return this.#core.peers.map((peer) => ({
      node: peer.node,
      state: peer.state,
      match: peer.match,
      next: peer.next,
      inflightBytes: peer.inflightBytes,
      recentlyActive: peer.recentlyActive,
      keepsUp: peer.counts && (peer.recentlyActive || peer.wasActive) && peer.match >= this.#core.commitBefore,
      recovery: peer.recovery,
      wantsState: peer.wantsState,
    }));
  }

  /** Drops messages not yet sent, as the network may: for a host that cannot call `take` for long. */
  dropMessages(): void {
    const core = this.#core;
    if (core.send.length > 0) core.send = [];
    if (core.afterPersist.length > 0) core.afterPersist = [];
  }

  /** A received state waits to take over; the next `take` with `mustPersist` has it. */
  get hasSnapshot(): boolean {
    return this.#core.incoming !== undefined;
  }

  /** `applyBytesMax` as in `take`. */
  hasReady(applyBytesMax = Infinity): boolean {
    const core = this.#core;
    return (
      (applyBytesMax > 0 && this.#mayApply()) ||
      core.send.length > 0 ||
      core.readStates.length > 0 ||
      (core.peers.length > 0 && (core.wantReplicate || core.wantHeartbeat)) ||
      (!this.#inflight && (this.#mustPersist() || core.afterPersist.length > 0))
    );
  }

  /** `applyBytesMax`: entries to apply, unless the first is larger; 0: none, as long as the host has no room. */
  take(applyBytesMax = this.#core.config.maxUncommittedBytes): Ready {
    const core = this.#core;
    const { log } = core;
    if (core.wantReplicate || core.wantHeartbeat) sendToPeers(core);
    let hardState: Ready['hardState'];
    let snapshot: Ready['snapshot'];
    let keepsLog = false;
    let entries = NO_ENTRIES;
    let afterPersist = NO_MESSAGES;
    let mustPersist = false;
    if (!this.#inflight) {
      mustPersist = this.#mustPersist();
      if (mustPersist) {
        if (this.#hardStateChanged()) hardState = { term: core.term, vote: core.vote, commit: log.commit };
        if (log.handed < log.last) entries = log.takeUnhanded();
        snapshot = core.incoming;
        keepsLog = snapshot !== undefined && snapshot === core.repairing;
        core.incoming = undefined;
        core.isInstalling = snapshot !== undefined;
        core.persistLimit = log.handed;
        this.#inflight = true;
        this.#inflightTerm = core.term;
        this.#inflightVote = core.vote;
        this.#inflightIndex = log.handed;
      }
      if (core.afterPersist.length > 0) {
        afterPersist = core.afterPersist;
        core.afterPersist = [];
      }
    }
    const committed = applyBytesMax > 0 ? this.takeCommitted(applyBytesMax) : NO_ENTRIES;
    let send = NO_MESSAGES;
    if (core.send.length > 0) {
      send = core.send;
      core.send = [];
    }
    let readStates = NO_READS;
    if (core.readStates.length > 0) {
      readStates = core.readStates;
      core.readStates = [];
    }
    if (planted('sent-before-commit')) {
      send = [...send, ...afterPersist];
      afterPersist = NO_MESSAGES;
    }
    return {
      hardState,
      entries,
      snapshot,
      keepsLog,
      mustPersist,
      persistIndex: log.handed,
      send,
      afterPersist,
      committed,
      readStates,
    };
  }

  /** Entries to apply beyond those of the last `take`, at most `bytesMax` unless the first is larger. */
  takeCommitted(bytesMax: number): readonly Entry[] {
    const core = this.#core;
    if (!this.#mayApply()) return NO_ENTRIES;
    const isUnbounded = planted('replay-without-checkpoints');
    const committed = core.log.takeDeliverable(isUnbounded ? core.config.maxUncommittedBytes : bytesMax);
    if (core.uncommittedBytes > 0) this.#uncharge(committed);
    const isOtherwise = planted('entry-applied-otherwise') && core.id % 3 === 0;
    return isOtherwise
      ? committed.map((one) => (one.index % 8 === 0 ? { ...one, kind: ENTRY_EMPTY } : one))
      : committed;
  }

  /**
   * The output of the last `take` with `mustPersist` is on disk; `index` is its persistIndex.
   * Without such a `take` it does nothing.
   */
  persisted(index: number): void {
    if (!this.#inflight) return;
    const core = this.#core;
    if (index !== this.#inflightIndex) assert(false, `${index} persisted, ${this.#inflightIndex} was handed out`);
    this.#inflight = false;
    core.isInstalling = false;
    core.durableTerm = this.#inflightTerm;
    core.durableVote = this.#inflightVote;
    core.log.stableTo(Math.min(index, core.persistLimit));
    if (core.repairing !== undefined && core.incoming === undefined) core.stateReplaced(core.repairing);
    if (core.role === 'leader') advanceCommit(core);
    else if (core.durableTerm === core.term && core.durableVote === core.id) onOwnVoteDurable(core);
  }

  /** Entries behind `index` wait to be applied, until another index or Infinity is given. */
  holdAt(index: number): void {
    this.#core.log.heldAt = index;
  }

  /** Entries up to `index` are in the applied state. */
  applied(index: number): void {
    this.#core.appliedTo(index);
  }

  /** The stored log was compacted up to and including `index`, which must be applied. */
  compacted(index: number): void {
    assert(index <= this.#core.applied, `compaction up to ${index}, applied only ${this.#core.applied}`);
    this.#core.log.compactTo(index);
  }

  #mayApply(): boolean {
    return this.#core.log.hasDeliverable() && this.#core.repairing === undefined;
  }

  #mustPersist(): boolean {
    const core = this.#core;
    return this.#hardStateChanged() || core.log.handed < core.log.last || core.incoming !== undefined;
  }

  #hardStateChanged(): boolean {
    return this.#core.term !== this.#core.durableTerm || this.#core.vote !== this.#core.durableVote;
  }

  /** Delivered entries no longer count against the leader's bound (of any proposer: it only bounds memory). */
  #uncharge(committed: readonly Entry[]): void {
    let bytes = 0;
    for (const entry of committed) bytes += entryBytes(entry);
    this.#core.uncommittedBytes = Math.max(0, this.#core.uncommittedBytes - bytes);
  }
}
