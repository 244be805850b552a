import { assert } from '../base/assert.ts';
import type { WindowBounds } from '../base/flight-window.ts';
import { planted } from '../base/planted.ts';
import { decodeConfiguration, isVoter, members } from './configuration.ts';
import { RaftLog } from './log.ts';
import { Progress } from './progress.ts';
import { Random } from './random.ts';
import {
  type Configuration,
  type ElectionPriority,
  ENTRY_CONFIG,
  type Envelope,
  type LostLog,
  type Message,
  type PeerNote,
  type RaftConfig,
  type ReadState,
  type Role,
  type SnapshotMeta,
} from './types.ts';
import type { Ballot } from './quorum.ts';

/** A configuration and the index of its log entry. */
export interface ConfigurationAt {
  readonly index: number;
  readonly configuration: Configuration;
}

export interface PendingRead {
  readonly from: number;
  readonly context: number;
  /** Answers from this round on confirm that no other node led when the read arrived (§6.4). */
  round: number;
  index: number;
}

/**
 * Initial and minimum window of entries in flight to a peer. Small, because all groups of a shard share the link, which
 * must carry all their windows within an election timeout. It doubles with each round trip.
 */
const WINDOW_BYTES_START = 64 * 1024;
const WINDOW_BYTES_MIN = 4 * 1024;
const WINDOW_BYTES_SMALL = 16 * 1024;

/** Bytes per read of the log at start, while looking for configuration entries. */
const SCAN_BYTES = 1024 * 1024;

/** All state of one node of one group; the other files here are functions over it. Nothing here calls upwards. */
export class Core {
  readonly config: RaftConfig;
  readonly id: number;
  readonly bootId: number;
  readonly log: RaftLog;
  readonly #window: WindowBounds;
  readonly random: Random;

  term: number;
  vote: number;
  /** Term and vote that the disk is known to hold. */
  durableTerm: number;
  durableVote: number;
  role: Role = 'follower';
  /** 0 = unknown. */
  leader = 0;
  mayVote: boolean;
  /** See recovery.ts; 0 whenever mayVote. */
  lost: LostLog;
  electionPriority: ElectionPriority = 'normal';
  applied: number;

  electionElapsed = 0;
  /** Ticks added to the timeout: a leader that has just sent many bytes writes them too, and is silent meanwhile. */
  writingTicks = 0;
  /** Timeout in ticks, redrawn at each change of role (§3.4, §9.3). */
  electionTimeout = 0;
  ticksSinceBoot = 0;

  /** Leader: latest round at the last quorum check. */
  checkedRound = 0;
  /** Leader: commit indexes at the last quorum check and at the one before, or at its election. */
  commitChecked = 0;
  commitBefore = 0;
  /** See stall.ts. Highest commit index seen by a leadership of this node, and ticks since with entries waiting. */
  commitSeen = 0;
  stallTicks = 0;
  patience = 1;
  failedTransfers = 0;
  /** Leaderships that this node gave up without a commit, and until when it accepts no other. */
  abdications = 0;
  shyUntil = 0;

  /** Ballots of the running election, by node. */
  readonly ballots = new Map<number, Ballot>();
  /** The leader requested the running election. */
  forced = false;

  /** Leader only: every other node that receives the log. */
  peers: Progress[] = [];
  /** Index of the first entry of the leader's term (§6.4 step 1, §3.6.2). */
  termStart = 0;
  /** Send counter; each message to a peer that wants an answer has its own number. Grows within a boot. */
  round = 0;
  uncommittedBytes = 0;
  transferee = 0;
  transferElapsed = 0;
  /** Nodes that may revert once (openraft's allow_next_revert). */
  readonly revertAllowed = new Set<number>();
  /** Peers may need messages. `take` checks it, so that one turn makes one append per peer. */
  wantReplicate = false;
  wantHeartbeat = false;

  /** Configurations from the one in force at `applied` on, ascending; the last one is in force (§4.1). */
  configurations: ConfigurationAt[];

  /** Reads waiting for a confirmed round, oldest first; unconfirmed ones of a new leader have index 0. */
  pendingReads: PendingRead[] = [];

  send: Message[] = [];
  afterPersist: Message[] = [];
  readStates: ReadState[] = [];
  /** A completely received snapshot that the host has not yet been told to install. */
  incoming: SnapshotMeta | undefined = undefined;
  /** One was handed out and is not on disk. */
  isInstalling = false;
  /** A snapshot of an earlier leader was installed; the answer to the next heartbeat says so. */
  hasNewsForLeader = false;
  /** See repair.ts: the host said that its applied state is damaged. */
  wantsState = false;
  /** A snapshot for it that is not on disk yet; nothing is applied meanwhile. */
  repairing: SnapshotMeta | undefined = undefined;
  /**
   * Highest index for which the write in flight is still valid. Truncating the log lowers it: otherwise the end of a
   * write of (6, term 1) could pass for that of (6, term 2), which took its place in memory.
   */
  persistLimit = 0;

  constructor(config: RaftConfig) {
    const { nodeId, hardState } = config;
    assert(Number.isSafeInteger(nodeId) && nodeId > 0, `node id ${nodeId}`);
    assert(
      config.heartbeatTicks > 0 && config.electionTicks > config.heartbeatTicks,
      'electionTicks > heartbeatTicks > 0',
    );
    this.config = config;
    this.id = nodeId;
    this.random = new Random(config.seed);
    this.#window = {
      minBytes: WINDOW_BYTES_MIN,
      startBytes: WINDOW_BYTES_START,
      maxBytes: config.maxInflightBytes,
      target: config.electionTicks / 2,
      smallBytes: WINDOW_BYTES_SMALL,
      // A leader must hear its followers within an election timeout, whatever makes them late.
      hasTrials: false,
    };
    this.bootId = config.bootId ?? 1 + this.random.below(0x7fff_ffff);
    assert(this.bootId > 0, 'bootId is positive');
    this.log = new RaftLog(config.log, config.snapshotIndex, config.snapshotTerm, hardState.commit, config.applied);
    this.term = hardState.term;
    this.vote = hardState.vote;
    assert(this.term >= this.log.lastTerm, `term ${this.term} below that of the last entry, ${this.log.lastTerm}`);
    this.durableTerm = this.term;
    this.durableVote = this.vote;
    this.mayVote = config.lost === 0;
    this.lost = config.lost;
    this.applied = config.applied;
    this.configurations = [{ index: config.applied, configuration: config.configuration }];
    this.#scanConfigurations(this.applied + 1, this.log.last);
    // No other node can have been elected since, so everything on this disk is committed: a sole voter need not lead to
    // apply it.
    if (this.mayVote && this.isAlone() && this.configurations.length === 1) this.log.commitTo(this.log.last);
    this.drawElectionTimeout();
  }

  get configuration(): Configuration {
    return this.configurations[this.configurations.length - 1]!.configuration;
  }

  get configurationIndex(): number {
    return this.configurations[this.configurations.length - 1]!.index;
  }

  isVoter(): boolean {
    return isVoter(this.configuration, this.id);
  }

  /**
   * A voter of the committed configuration or of a later one. A node whose own log says that it leaves must still
   * campaign until that is committed: the old half may need its vote, which it refuses to shorter logs (§4.2.2).
   */
  mayBeNeededAsLeader(): boolean {
    const all = this.configurations;
    for (let at = all.length - 1; at >= 0; at -= 1) {
      if (isVoter(all[at]!.configuration, this.id)) return true;
      if (all[at]!.index <= this.log.commit) return false;
    }
    return false;
  }

  /** The only voter, so it needs no messages. */
  isAlone(): boolean {
    const { voters, votersOutgoing } = this.configurations[this.configurations.length - 1]!.configuration;
    return votersOutgoing.length === 0 && voters.length === 1 && voters[0] === this.id;
  }

  drawElectionTimeout(): void {
    const ticks = this.config.electionTicks;
    // A node with low priority lets the others try first, but does lead if no other node can.
    this.electionTimeout =
      ticks + this.random.below(ticks) + (this.electionPriority === 'low' || this.isShy ? ticks : 0);
  }

  /** Whether other nodes should not hand leadership to this one. */
  get refusesLead(): boolean {
    return this.electionPriority !== 'normal' || this.isShy;
  }

  /** Whether it recently gave up a leadership that committed nothing. */
  get isShy(): boolean {
    return this.ticksSinceBoot < this.shyUntil;
  }

  /** Leader: nothing was committed for more than this many ticks although something waits. */
  isStalled(ticks: number): boolean {
    return this.stallTicks > ticks && !planted('stall-is-endured');
  }

  peer(node: number): Progress | undefined {
    const peers = this.peers;
    for (let at = 0; at < peers.length; at += 1) if (peers[at]!.node === node) return peers[at];
    return undefined;
  }

  /** A configuration entry entered the log: it is in force from now on (§4.1, invariant 6). */
  adopt(index: number, configuration: Configuration): void {
    assert(index > this.configurationIndex, `configuration at ${index} after ${this.configurationIndex}`);
    this.configurations.push({ index, configuration });
    this.syncPeers();
  }

  /** Truncates the log from `index` on, with the configurations in that part (§4.1). */
  truncate(index: number): void {
    this.log.truncate(index);
    this.persistLimit = Math.min(this.persistLimit, index - 1);
    // Invariant 4: these answers wait for a write that will not happen.
    this.afterPersist = this.afterPersist.filter(
      (message) => message.type !== 'append-response' || message.index < index,
    );
    while (this.configurationIndex >= index) {
      assert(this.configurations.length > 1, `configuration at ${this.configurationIndex} is committed`);
      this.configurations.pop();
    }
  }

  /** Configuration in force after applying `index`; valid from the applied index on. */
  configurationAt(index: number): Configuration {
    let found = this.configurations[0]!;
    for (const each of this.configurations) if (each.index <= index) found = each;
    return found.configuration;
  }

  /** A snapshot replaces the state of this node. */
  get isReplaced(): boolean {
    return this.incoming !== undefined || this.isInstalling;
  }

  /** A snapshot replaces the log and the applied state. */
  restore(snapshot: SnapshotMeta): void {
    this.log.restore(snapshot.index, snapshot.term);
    this.configurations = [{ index: snapshot.index, configuration: snapshot.configuration }];
    this.applied = snapshot.index;
    this.incoming = snapshot;
    this.wantsState = false;
    this.repairing = undefined;
    this.persistLimit = 0;
  }

  /** A snapshot replaces the applied state and not the log, which has all of it. */
  replaceState(snapshot: SnapshotMeta): void {
    this.log.commitTo(snapshot.index);
    this.incoming = snapshot;
    this.repairing = snapshot;
  }

  /** That state is on disk: applying goes on behind it. */
  stateReplaced({ index, configuration }: SnapshotMeta): void {
    if (!planted('repair-skips-entries')) this.log.deliverFrom(index);
    // Those that were applied were forgotten: the log has them.
    const later = this.configurations.filter((each) => each.index > Math.max(index, this.applied));
    this.configurations = [{ index, configuration }];
    this.#scanConfigurations(index + 1, this.applied);
    this.configurations.push(...later);
    this.applied = index;
    this.wantsState = false;
    this.repairing = undefined;
  }

  appliedTo(index: number): void {
    assert(index <= this.log.delivered, `applied ${index}, delivered only ${this.log.delivered}`);
    if (index > this.applied) this.applied = index;
    while (this.configurations.length > 1 && this.configurations[1]!.index <= this.applied) this.configurations.shift();
  }

  /**
   * Leader: one Progress per other member; new ones start by probing at the end of the log. Leaving members stay until
   * they know that they left (or are silent), or they would campaign without end (§4.2.3).
   */
  syncPeers(): void {
    if (this.role !== 'leader') {
      this.peers = [];
      return;
    }
    const next = this.log.last + 1;
    const staying = members(this.configuration)
      .filter((node) => node !== this.id)
      .map((node) => {
        const known = this.peer(node);
        return known !== undefined && !known.leaving ? known : new Progress(node, next, this.round, this.#window);
      });
    const leaving = this.peers.filter((peer) => staying.every((other) => other.node !== peer.node));
    for (const peer of leaving) peer.leaving = true;
    this.peers = [...staying, ...leaving];
    this.wantReplicate = true;
  }

  /** The head of a message to a node. */
  envelope(to: number): Envelope {
    return { from: this.id, to, term: this.term };
  }

  /** Every answer to a leader says this of the node. `round`: that of the question. */
  note(round: number): PeerNote {
    const { bootId: boot, lost, refusesLead, wantsState } = this;
    return { round, boot, lost, refusesLead, wantsState };
  }

  /** Leader: asks the host to send the applied state. */
  sendSnapshot(peer: Progress): void {
    const index = this.applied;
    const term = this.log.term(index);
    assert(term >= 0, `the log does not know the applied index ${index}`);
    this.round += 1;
    this.send.push({
      type: 'snapshot',
      ...this.envelope(peer.node),
      snapshot: { index, term, configuration: this.configurationAt(index) },
      round: this.round,
      allowedBoot: peer.allowedBoot,
      restored: peer.restored,
    });
  }

  /** The log may already hold configurations that are not applied yet. */
  #scanConfigurations(first: number, last: number): void {
    let from = first;
    while (from <= last) {
      const entries = this.log.reader.entries(from, last + 1, SCAN_BYTES);
      assert(entries.length > 0, `stored log has no entry ${from}`);
      for (const entry of entries) {
        if (entry.kind === ENTRY_CONFIG) this.adopt(entry.index, decodeConfiguration(entry.data));
      }
      from += entries.length;
    }
  }
}
