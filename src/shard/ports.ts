/** What a shard needs from the outside; the simulator swaps all of it. */
import type { Configuration, Entry, HardState, LogReader } from '../raft/types.ts';
import type { Tx } from '../stream/tx.ts';

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
  configuration(group: number): Configuration | undefined;
  /**
   * One durable commit: the turn's entries and votes, what `checkpoint` writes into `tx`, and the deletion of log records
   * that earlier checkpoints cover. On disk when it returns. Throws StorageFullError when there is no room: nothing was
   * written then, and the same commit may be tried again. Any other error is fatal.
   */
  commit(batches: readonly TurnBatch[], checkpoint: (() => void) | undefined): void;
  /** A checkpoint up to `index` is on disk: its log entries are not needed any more. */
  purge(group: number, index: number): void;
  /** Log records waiting for deletion by the next commit. */
  readonly doomedRecords: number;
  /** False when the file system is down to its reserve; sampled, may be a moment old. */
  readonly spaceLeft: boolean;
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
