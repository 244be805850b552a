/** A shard's interfaces to the outside; the simulator replaces all of them. */
import type {
  Entry,
  HardState,
  LogReader,
  Message,
  SnapshotMeta,
  GroupSnapshotRequest,
  LostLog,
} from '../raft/types.ts';
import type { RowDamage } from '../base/row-damage.ts';
import type { Tx } from '../base/tx.ts';
import type { RememberedRun } from '../peer/codec/standing.ts';

/** Requests from the main thread: a ring reader. */
export interface RequestSource {
  next(): boolean;
  /** The current record; valid until release(). */
  readonly offset: number;
  readonly length: number;
  readonly bytes: Uint8Array;
  readonly view: DataView;
  release(): void;
  /** The payload transferred separately under this id. */
  takeTransfer(id: number): Uint8Array;
}

/** Answers to the main thread: a ring writer that waits, boundedly, when the ring is full. */
export interface ReplyTarget {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Offset of a span for at most `sizeBytes`. */
  reserve(sizeBytes: number): number;
  commit(sizeBytes: number): void;
  /** Transfers a body separately; returns its id, to be named in the frame that follows. */
  sendTransfer(body: Uint8Array<ArrayBuffer>): number;
  /** Makes committed records visible and wakes the main thread if it sleeps. */
  publish(): void;
}

/** The part of a turn that is made durable. */
export interface TurnBatch {
  readonly group: number;
  readonly entries: readonly Entry[];
  readonly hardState: HardState | undefined;
  /** A received snapshot takes over: the staged rows become the group's state, and its log starts after them. */
  readonly snapshot: SnapshotMeta | undefined;
  /** It replaces the state only: the log has all of it, and what follows. */
  readonly keepsLog?: boolean;
  /** Argument of raft.persisted() once the batch is on disk. */
  readonly persistIndex: number;
}

export interface StoredVote {
  readonly term: number;
  readonly vote: number;
}

export interface StoragePaths {
  readonly log: string;
  readonly state: string;
}

/** Durable storage of a shard. */
export interface ShardStorage {
  /** Applied state of all groups of the shard; put and delete only inside a commit. */
  readonly tx: Tx;
  /** Throws RowDamage when the storage's own rows about the group are not what was written. */
  checkGroup(group: number): void;
  /** Opens a group's log after its applied state. Open all groups before load(). */
  openLog(group: number, appliedIndex: number, appliedTerm: number): LogReader;
  /** Instead of openLog() for a group whose state cannot be opened: nothing of its log counts, and it is lost. */
  abandonLog(group: number): LogReader;
  /** Throws when something is damaged that only this node has. `sole`: groups that no other node can restore. */
  load(sole: readonly number[]): void;
  vote(group: number): StoredVote;
  /** Prefix of the rows of the group's state (stream/core/keys.ts). */
  prefix(group: number): number;
  /** Where the log and the applied state lie, for sentences. */
  readonly paths: StoragePaths;
  /** Whether this node lost the group's log and must not vote until a leader restored it. */
  lost(group: number): LostLog;
  setLost(groups: readonly number[], lost: LostLog): void;
  /** The data directory is new: nothing was ever stored here. markUsed() ends that. */
  readonly fresh: boolean;
  /** Marks the directory as used and, in the same commit, the groups whose log it does not have. */
  markUsed(lost: readonly number[]): void;
  /**
   * The turn's entries and votes; a snapshot takes over before them. On disk when it returns; `behind`, which no
   * snapshot may be, when endAppend() says so. Throws StorageFullError when there is no space: the same call may be
   * repeated. Any other error is fatal.
   */
  append(batches: readonly TurnBatch[], how: 'wait' | 'behind'): void;
  /** Whether the last append is on disk; the next one is only possible then. Any error is fatal. */
  endAppend(how: 'look' | 'wait'): boolean;
  /** From now on the last record that append() wrote cannot be taken for one whose write did not end. */
  seal(): void;
  /** Takes what `write` puts into `tx` and begins to write it; reads see it at once. The one before has ended. */
  startCheckpoint(write: () => void): void;
  /**
   * Whether the last checkpoint is on disk; false: it is under way. Throws StorageFullError once when there was no
   * space: its rows are kept and go with the next one. Any other error is fatal.
   */
  endCheckpoint(how: 'look' | 'wait'): boolean;
  /** A checkpoint up to `index` is on disk: its log entries are no longer needed. */
  compact(group: number, index: number): void;
  /** The greatest index up to `index` after which the log still holds `keepBytes`; 0 when it holds less. */
  compactable(group: number, index: number, keepBytes: number): number;
  /** Size of the log after `index`, in bytes. */
  logBytesBehind(group: number, index: number): number;
  /** Bytes of all groups' logs in memory; older entries are read back from disk. */
  readonly logMemoryBytes: number;
  readonly logReadBack: number;
  /** Segment files of the log, free ones too. */
  readonly logSegments: number;
  readonly logFileBytes: number;
  /** Told of each read that meets a row which the disk changed; the read throws RowDamage. */
  onDamage: (damage: RowDamage) => void;
  readonly scrub: RowReader;
  /** All rows of a group's state at this moment; later commits do not change them. */
  openSnapshot(group: number): SnapshotReader;
  /** The same of all rows from each first key to its second one, one range after the other. */
  openRanges(ranges: readonly RowRange[]): SnapshotReader;
  /**
   * Adds rows of a snapshot to the half of the group's key space that its state does not use; durable, one commit for
   *  all.
   */
  stage(group: number, pieces: readonly Uint8Array[]): void;
  /** Deletes some rows of that half, a few milliseconds' worth, in one commit; returns true when it is empty. */
  clearStage(group: number): boolean;
  /** False when the file system is down to its reserve; sampled, may be a moment old. */
  readonly spaceLeft: boolean;
  /** False when a commit that finds no page to reuse might not fit; sampled too, and false before spaceLeft is. */
  readonly roomToGrow: boolean;
}

/** Keys with their prefix; without `end`. */
export type RowRange = readonly [start: Uint8Array, end: Uint8Array];

/** Reads all rows one after the other. */
export interface RowReader {
  /**
   * Those behind the last call's, about so many bytes; what the disk changed is told to onDamage. Also looks at some
   * pages that lead to rows, and throws when one changed.
   */
  step(bytesMax: number): {
    readonly bytes: number;
    /** That was the last row: the next call begins with the first one. */
    readonly isEnd: boolean;
  };
}

/** A shard's memory of other nodes (directories.ts). */
export interface DirectoryStorage {
  /** The last run of a node that this shard linked to. */
  peerRun(node: number): RememberedRun | undefined;
  /** On disk when it returns. Throws StorageFullError when there is no space. */
  rememberPeer(node: number, run: RememberedRun): void;
}

/** Rows of a group in chunks, for another node: keyBytes u16, valueBytes u32, key without its prefix, value. */
export interface SnapshotReader {
  /** The next chunk, at most `bytesMax` unless a single row is larger; undefined at the end. */
  next(bytesMax: number): Uint8Array | undefined;
  close(): void;
}

/** Destination of the answer to a forwarded request. */
export interface ForwardOrigin {
  readonly node: number;
  readonly shard: number;
  readonly boot: number;
  readonly correlation: number;
}

/** One transfer; the same object in every call about it. */
export interface IncomingSnapshot {
  readonly node: number;
  readonly group: number;
  readonly receivedBytes: number;
}

export interface SnapshotHandler {
  /** `metadata` is overwritten after the call. An earlier transfer for the group has ended before. */
  onSnapshotBegin(snapshot: IncomingSnapshot, message: GroupSnapshotRequest, metadata: Uint8Array): void;
  /** In order, without gaps. On return the sender hears that the bytes are processed, unless it is on hold. */
  onSnapshotChunk(snapshot: IncomingSnapshot, bytes: Uint8Array): void;
  /** All bytes were delivered: install, then report with `PeerPort.snapshotResult`. */
  onSnapshotComplete(snapshot: IncomingSnapshot): void;
  /** Ended without a result, also after `onSnapshotComplete` when a newer one begins: discard its data. */
  onSnapshotAborted(snapshot: IncomingSnapshot): void;
}

/** `lost`: the connection broke, or the receiver was silent for too long. */
export type SnapshotOutcome = 'installed' | 'failed' | 'lost' | 'cancelled';

export interface SnapshotSource {
  /** The next bytes, at most SNAPSHOT_CHUNK_BYTES_MAX, copied before the next call; undefined at the end. */
  next(): Uint8Array | undefined;
  /** Exactly once, the last call. */
  done(outcome: SnapshotOutcome): void;
}

/** A transfer in progress. */
export interface SnapshotSending {
  /** Tells the receiver to discard it; the source is done. Does nothing when it is over. */
  cancel(): void;
}

/** Links to the same groups on other nodes (src/peer); undefined on a single node. */
export interface PeerPort {
  connected(node: number, group: number): boolean;
  /** The version of the protocol that it spoke when it was last connected; 0: it was never. */
  version(node: number, group: number): number;
  sendRaft(node: number, group: number, message: Message): void;
  /**
   * False: not sent, `onReply` is not called. Otherwise it is called once, with undefined when no answer will come. The
   * bytes of a request or an answer must not change before the next flush.
   */
  forward(node: number, group: number, bytes: Uint8Array, onReply: (answer: Uint8Array | undefined) => void): boolean;
  reply(origin: ForwardOrigin, bytes: Uint8Array): boolean;
  /** Undefined: not started, the source is not used. */
  sendSnapshot(
    node: number,
    group: number,
    message: GroupSnapshotRequest,
    metadata: Uint8Array,
    source: SnapshotSource,
  ): SnapshotSending | undefined;
  /** Nodes that joined in addition to those of the configuration file, with their addresses; replaces the last call. */
  setJoined(addresses: ReadonlyMap<number, string>): void;
  snapshotResult(snapshot: IncomingSnapshot, status: 'installed' | 'failed'): boolean;
  /** hold: bytes wait here, so the sender gets keep-alives and sends a window at most. resume: they no longer wait. */
  paceSnapshot(snapshot: IncomingSnapshot, pace: 'hold' | 'resume'): void;
  flush(): void;
}

export class StorageFullError extends Error {
  constructor(options?: ErrorOptions) {
    super('no space left on the data volume', options);
    this.name = 'StorageFullError';
  }
}

/** Severity and sentence; the host writes them to the process log. */
export type Log = (
  level: 'debug' | 'info' | 'warn' | 'error',
  message: string,
  fields?: Record<string, unknown>,
) => void;
