/**
 * The vocabulary of the consensus core: what goes in, what comes out, and what must always hold.
 *
 * Rules cite sections of Ongaro, "Consensus: Bridging Theory and Practice" (the thesis) as §n. "Invariant n" in this
 * folder is one of those in its README.md.
 */

export const ENTRY_DATA = 0;
export const ENTRY_CONFIG = 1;
export const ENTRY_EMPTY = 2;
/** DATA is opaque to this folder, CONFIG holds an encoded `Configuration`, EMPTY opens a leader's term (§6.4). */
export type EntryKind = 0 | 1 | 2;

export interface Entry {
  readonly term: number;
  readonly index: number;
  readonly kind: EntryKind;
  readonly data: Uint8Array;
}

/** Bytes that an entry is charged beyond its data: term, index, kind and length on the wire, object in memory. */
export const ENTRY_OVERHEAD_BYTES = 64;

export interface HardState {
  readonly term: number;
  /** Node that received this node's vote in `term`; 0 = none. */
  readonly vote: number;
  /** Lazily durable: recovered by the next leader contact, so it is never a reason to fsync. */
  readonly commit: number;
}

/** Node -> its address, as the host wrote it. */
export type Addresses = ReadonlyMap<number, string>;

/** Joint while `votersOutgoing` is non-empty (§4.3). All lists ascending, node ids positive. */
export interface Configuration {
  readonly voters: readonly number[];
  readonly votersOutgoing: readonly number[];
  readonly learners: readonly number[];
  /** Addresses of members that hosts do not know, ascending; missing when there are none. See addresses.ts. */
  readonly addresses?: Addresses;
  /** Identity of the cluster, once it has one: drawn by a leader, never changed. Consensus only carries it along. */
  readonly identity?: string;
}

/**
 * The log as the host has it on disk; reads only, synchronous. Never asked beyond what `persisted` confirmed. `term`
 * must also answer for firstIndex() - 1 (the snapshot index; 0 has term 0). `entries` returns [lo, hi) cut to maxBytes
 * (each entry charged its data and ENTRY_OVERHEAD_BYTES; counting the data alone is allowed, the core cuts again), but
 * always at least one entry when lo < hi.
 */
export interface LogReader {
  firstIndex(): number;
  lastIndex(): number;
  term(index: number): number;
  entries(lo: number, hi: number, maxBytes: number): Entry[];
}

export interface RaftConfig {
  readonly nodeId: number;
  /** Ticks without a leader before an election; the real timeout is random in [electionTicks, 2 * electionTicks). */
  readonly electionTicks: number;
  /** Ticks between heartbeats; well below electionTicks (a tenth is usual). */
  readonly heartbeatTicks: number;
  /** Maximum sum of entry bytes in one append message; a single bigger entry is sent alone. */
  readonly maxMessageBytes: number;
  /** Maximum sum of unacknowledged append bytes per peer: round trip time times desired throughput. */
  readonly maxInflightBytes: number;
  /** Maximum data of a proposed entry, in bytes: what a message between nodes can carry. */
  readonly maxEntryBytes: number;
  /** Proposals are refused while this many bytes are not yet committed and delivered. One is always accepted. */
  readonly maxUncommittedBytes: number;
  /** Seed of the election timeouts; should differ between nodes, groups and boots. */
  readonly seed: number;
  /** Identifies this run of the process to its peers (positive, new at each boot). Default: derived from `seed`. */
  readonly bootId?: number | undefined;
  /** Not 0: this node lost its log (or part of it) and neither votes nor campaigns until a leader restored it. */
  readonly lost: LostLog;
  readonly log: LogReader;
  readonly hardState: HardState;
  /** Configuration as of `applied`. Later ones are found in the log. */
  readonly configuration: Configuration;
  /** Entries up to here are already in the applied state; delivery starts after it. */
  readonly applied: number;
  /** Index and term of the last compacted entry (firstIndex() - 1); 0, 0 when none. */
  readonly snapshotIndex: number;
  readonly snapshotTerm: number;
}

/**
 * How eagerly this node leads. low: it campaigns later than the others (its disk is full, or it cannot reach the cold
 * store). none: not at all (draining). Neither accepts a transfer, and neither gives up a leadership that it has.
 */
export type ElectionPriority = 'normal' | 'low' | 'none';

export type Role = 'follower' | 'pre-candidate' | 'candidate' | 'leader';

export interface Envelope {
  readonly from: number;
  readonly to: number;
  /** The sender's term. In a pre-vote and its grant: the term in which the candidate would campaign (§9.6). */
  readonly term: number;
}

/** §9.6 (pre), §3.4. `force` marks an election that the leader requested; it overrides the lease (§4.2.3). */
export interface VoteRequest extends Envelope {
  readonly type: 'vote';
  readonly pre: boolean;
  readonly force: boolean;
  readonly lastIndex: number;
  readonly lastTerm: number;
}

export interface VoteResponse extends Envelope {
  readonly type: 'vote-response';
  readonly pre: boolean;
  readonly granted: boolean;
}

/**
 * A leader's note to a peer that lost its log; `allowedBoot` 0 = none. allowedBoot: the run of the peer that an
 * operator allowed to revert. restored: it has caught up and may vote.
 */
export interface RecoveryNote {
  readonly allowedBoot: number;
  readonly restored: boolean;
}

export interface AppendRequest extends Envelope, RecoveryNote {
  readonly type: 'append';
  readonly prevIndex: number;
  readonly prevTerm: number;
  readonly entries: readonly Entry[];
  /** The leader's commit index; the follower cuts it to what it has. */
  readonly commit: number;
  /** Leader's send counter, echoed in the answer: tells fresh answers from stale ones. */
  readonly round: number;
}

/** Whether the answering node still misses its log: 0 no, 1 yes and the revert is not allowed, 2 yes and allowed. */
export type LostLog = 0 | 1 | 2;

/** Information about the sender in every answer to a leader. */
export interface PeerNote {
  readonly round: number;
  readonly boot: number;
  readonly lost: LostLog;
  /** The node does not want to lead (draining); leadership is not transferred to it. */
  readonly refusesLead: boolean;
  /** Its log is sound and its applied state is not: it wants a snapshot, and entries meanwhile. */
  readonly wantsState: boolean;
}

export interface AppendResponse extends Envelope, PeerNote {
  readonly type: 'append-response';
  readonly reject: boolean;
  /** Accepted: log equals the leader's up to here, on disk. Rejected: the prevIndex that did not match. */
  readonly index: number;
  /** Rejected only: the leader should look for agreement at or below this index, which has this term (§3.5). */
  readonly hintIndex: number;
  readonly hintTerm: number;
}

/** Keeps the lease, carries the commit index (cut to what the peer is known to have). round 0: no answer wanted. */
export interface Heartbeat extends Envelope, RecoveryNote {
  readonly type: 'heartbeat';
  readonly commit: number;
  readonly round: number;
}

export interface HeartbeatResponse extends Envelope, PeerNote {
  readonly type: 'heartbeat-response';
}

export interface SnapshotMeta {
  readonly index: number;
  readonly term: number;
  readonly configuration: Configuration;
}

/**
 * Metadata of a snapshot for a peer that is behind the log's first index (§5). The host sends the payload separately
 * and may replace `snapshot` by the newer or older state that it really streams, as long as the log continues from
 * there (index >= firstIndex() - 1). The receiving host steps this message when the payload is complete. The sending
 * host reports the end of the transfer with `snapshotInstalled` or `snapshotFailed`, and keeps the log after `index`
 * until then.
 */
export interface GroupSnapshotRequest extends Envelope, RecoveryNote {
  readonly type: 'snapshot';
  readonly snapshot: SnapshotMeta;
  readonly round: number;
}

/** Leadership transfer: campaign now, without pre-vote (§3.10). */
export interface TimeoutNow extends Envelope {
  readonly type: 'timeout-now';
}

/** A follower asks the leader for a read index (§6.4); `context` is the asker's own number. */
export interface ReadIndexRequest extends Envelope {
  readonly type: 'read-index';
  readonly context: number;
}

/** index 0: refused (not the leader, or nothing committed in its term yet); ask again. */
export interface ReadIndexResponse extends Envelope {
  readonly type: 'read-index-response';
  readonly context: number;
  readonly index: number;
}

export type Message =
  | VoteRequest
  | VoteResponse
  | AppendRequest
  | AppendResponse
  | Heartbeat
  | HeartbeatResponse
  | GroupSnapshotRequest
  | TimeoutNow
  | ReadIndexRequest
  | ReadIndexResponse;

/** index 0: the read was refused (leader changed); otherwise serve it once applied >= index. */
export interface ReadState {
  readonly context: number;
  readonly index: number;
}

/**
 * Work since the last `take`. Host order: make `snapshot`, `hardState` and `entries` durable in one commit, call
 * `persisted(persistIndex)`, then send `afterPersist`. `send` may be sent immediately. `committed` may be
 * applied at any time. While one persist is in flight, `take` returns no second one (and no `afterPersist`).
 */
export interface Ready {
  /** Present when term or vote changed, never for a change of commit alone. */
  readonly hardState: HardState | undefined;
  /** To append; anything stored at or above entries[0].index is removed. */
  readonly entries: readonly Entry[];
  /** Received snapshot to install: replaces the applied state and the whole log up to and including its index. */
  readonly snapshot: SnapshotMeta | undefined;
  /** The snapshot replaces the applied state only: the log stays, and what is behind its index is applied again. */
  readonly keepsLog: boolean;
  /** True when hardState, entries or snapshot is present: `persisted` must be called exactly once for this Ready. */
  readonly mustPersist: boolean;
  /** Argument for `persisted`. */
  readonly persistIndex: number;
  readonly send: readonly Message[];
  readonly afterPersist: readonly Message[];
  /** Newly committed and locally durable, in order, each exactly once. */
  readonly committed: readonly Entry[];
  readonly readStates: readonly ReadState[];
}

/** The outcome of a request to transfer leadership. */
export type TransferOutcome = 'started' | 'not-leader' | 'not-voter' | 'busy' | 'lagging' | 'refused';

/** One peer as its leader sees it; for metrics and admin answers. */
export interface PeerStatus {
  readonly node: number;
  readonly state: 'probe' | 'replicate' | 'snapshot';
  readonly match: number;
  readonly next: number;
  readonly inflightBytes: number;
  readonly recentlyActive: boolean;
  /** It counts, it answers, and its disk has what was committed at the quorum check before the last one. */
  readonly keepsUp: boolean;
  /** Lost its log: does not count. 'asking' waits for `allowNextRevert`. */
  readonly recovery: 'none' | 'asking' | 'allowed';
  /** It asked for a snapshot of the applied state, and none has arrived since. */
  readonly wantsState: boolean;
}
