/** What a shard needs from the outside; the simulator swaps all of it. */
import type { Entry, HardState, LogReader, Message, SnapshotMeta, SnapshotRequest } from '../raft/types.ts';
import type { Tx } from '../stream/tx.ts';
import type { DirectoryRun } from '../peer/codec/standing.ts';

/** Requests from the main thread: a ring reader. */
export interface RequestSource {
  next(): boolean;
  /** The current record; valid until release(). */
  readonly offset: number;
  readonly length: number;
  readonly bytes: Uint8Array;
  readonly view: DataView;
  release(): void;
  /** The payload that came beside the ring under this id. */
  takeLane(id: number): Uint8Array;
}

/** Answers to the main thread: a ring writer that waits, boundedly, when the ring is full. */
export interface ReplyTarget {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Offset of a span for at most `sizeBytes`. */
  reserve(sizeBytes: number): number;
  commit(sizeBytes: number): void;
  /** Sends a body beside the ring; its id, to be named in the frame that follows. */
  sendLane(body: Uint8Array<ArrayBuffer>): number;
  /** Makes committed records visible and wakes the main thread if it sleeps. */
  publish(): void;
}

/** What one turn makes durable. */
export interface TurnBatch {
  readonly group: number;
  readonly entries: readonly Entry[];
  readonly hardState: HardState | undefined;
  /** A received snapshot takes over: the staged rows become the group's state, and its log starts behind them. */
  readonly snapshot: SnapshotMeta | undefined;
  /** What raft is told when the batch is on disk. */
  readonly persistIndex: number;
  readonly persistTerm: number;
}

export interface StoredVote {
  readonly term: number;
  readonly vote: number;
}

/** Durable storage of a shard. */
export interface ShardStorage {
  /** Applied state of all groups of the shard; put and delete only inside a commit. */
  readonly tx: Tx;
  /** Opens a group's log behind its applied state. All groups first, then load(). */
  openLog(group: number, appliedIndex: number, appliedTerm: number): LogReader;
  load(): void;
  vote(group: number): StoredVote;
  /** Prefix of the rows of the group's state (stream/keys.ts). */
  prefix(group: number): number;
  /** True: this node lost the group's log and must not vote until a leader restored it. */
  lost(group: number): boolean;
  setLost(groups: readonly number[], lost: boolean): void;
  /** The data directory is new: nothing was ever stored here. markUsed() ends that. */
  readonly fresh: boolean;
  /** Marks the directory as used and, in the same commit, the groups whose log it does not have. */
  markUsed(lost: readonly number[]): void;
  /**
   * One durable commit: the turn's entries and votes, what `checkpoint` writes into `tx`, and the deletion of log records
   * that earlier checkpoints cover. On disk when it returns. Throws StorageFullError when there is no room: nothing was
   * written then, and the same commit may be tried again. Any other error is fatal.
   */
  commit(batches: readonly TurnBatch[], checkpoint: (() => void) | undefined): void;
  /** A checkpoint up to `index` is on disk: its log entries are not needed any more. */
  purge(group: number, index: number): void;
  /** The greatest index up to `index` behind which the log still holds `keepBytes`; 0 when it holds less. */
  purgeable(group: number, index: number, keepBytes: number): number;
  /** What the log behind `index` costs, in bytes. */
  logBytesBehind(group: number, index: number): number;
  /** What the logs of all groups hold in memory; what is older is read back from disk. */
  readonly logMemoryBytes: number;
  readonly logReadBack: number;
  /** All rows of a group's state as they are now, unmoved by later commits. */
  openSnapshot(group: number): SnapshotReader;
  /** Adds rows of a snapshot to the half of the group's key space that its state does not use; durable, one commit for all. */
  stage(group: number, pieces: readonly Uint8Array[]): void;
  /** Deletes some rows of that half, a few milliseconds' worth, in one commit; true when it is empty. */
  clearStage(group: number): boolean;
  /** Log records waiting for deletion by the next commit. */
  readonly doomedRecords: number;
  /** False when the file system is down to its reserve; sampled, may be a moment old. */
  readonly spaceLeft: boolean;
  /** The file system could take commits that find no page to use again; sampled too, and false before spaceLeft is. */
  readonly roomToGrow: boolean;
}

/** What a shard remembers of other nodes (directories.ts). */
export interface DirectoryStorage {
  /** The last run of a node that this shard linked to. */
  peerRun(node: number): DirectoryRun | undefined;
  /** On disk when it returns. */
  rememberPeer(node: number, run: DirectoryRun): void;
}

/** Rows of a group in chunks, for another node: keyBytes u16, valueBytes u32, key without its prefix, value. */
export interface SnapshotReader {
  /** The next chunk, at most `bytesMax` unless a single row is larger; undefined at the end. */
  next(bytesMax: number): Uint8Array | undefined;
  close(): void;
}

/** Where the answer to a forwarded request goes. */
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
}

export interface SnapshotHandler {
  /** `metadata` is overwritten after the call. A transfer that is under way for the group was ended before. */
  onSnapshotBegin(snapshot: IncomingSnapshot, message: SnapshotRequest, metadata: Uint8Array): void;
  /** In order, without a gap. When this returns, the sender is told that the bytes are dealt with, unless the transfer is on hold. */
  onSnapshotChunk(snapshot: IncomingSnapshot, bytes: Uint8Array): void;
  /** All bytes were handed out: install, then say so with `PeerPort.snapshotResult`. */
  onSnapshotComplete(snapshot: IncomingSnapshot): void;
  /** It is over without a result, also after `onSnapshotComplete` when a newer one begins: throw away what there is. */
  onSnapshotAborted(snapshot: IncomingSnapshot): void;
}

/** `lost`: the connection broke, or the receiver said nothing for too long. */
export type SnapshotOutcome = 'installed' | 'failed' | 'lost' | 'cancelled';

export interface SnapshotSource {
  /** The next bytes, at most SNAPSHOT_CHUNK_BYTES_MAX, copied before it is asked again; undefined: that was all. */
  next(): Uint8Array | undefined;
  /** Exactly once, the last call. */
  done(outcome: SnapshotOutcome): void;
}

/** A transfer under way. */
export interface SnapshotSending {
  /** Tells the receiver to forget it; the source is done. Does nothing when it is over. */
  cancel(): void;
}

/** Links to the same groups on other nodes (src/peer); undefined on a single node. */
export interface PeerPort {
  connected(node: number, group: number): boolean;
  sendRaft(node: number, group: number, message: Message): void;
  /**
   * False: not sent, `onReply` is not called. Else it is called once, with undefined when no answer will come. The bytes of a
   * request or an answer must not change before the next flush.
   */
  forward(node: number, group: number, bytes: Uint8Array, onReply: (answer: Uint8Array | undefined) => void): boolean;
  reply(origin: ForwardOrigin, bytes: Uint8Array): boolean;
  /** Undefined: not started, the source is not used. */
  sendSnapshot(
    node: number,
    group: number,
    message: SnapshotRequest,
    metadata: Uint8Array,
    source: SnapshotSource,
  ): SnapshotSending | undefined;
  /** Nodes that joined beside those of the configuration file, with their addresses; replaces what was said before. */
  setJoined(addresses: ReadonlyMap<number, string>): void;
  snapshotResult(snapshot: IncomingSnapshot, status: 'installed' | 'failed'): boolean;
  /** hold: its bytes wait here, so the sender learns that this end lives, and sends no more than a window. resume: they do not. */
  paceSnapshot(snapshot: IncomingSnapshot, pace: 'hold' | 'resume'): void;
  flush(): void;
}

export class StorageFullError extends Error {
  constructor(options?: ErrorOptions) {
    super('no space left on the data volume', options);
    this.name = 'StorageFullError';
  }
}

/** Severity and sentence; the host routes them into the process log. */
export type Log = (
  level: 'debug' | 'info' | 'warn' | 'error',
  message: string,
  fields?: Record<string, unknown>,
) => void;
