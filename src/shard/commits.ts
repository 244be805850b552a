/**
 * A shard's commits: what raft wants durable (invariants 1 and 2), and the checkpoints in the same commit. Handles a full disk: batches that
 * could not be written are kept and retried, and new writes are refused meanwhile.
 */
import type { Runtime } from '../base/runtime.ts';
import type { Group } from '../group/group.ts';
import { Checkpoints } from './checkpoints.ts';
import { type Log, type ShardStorage, StorageFullError, type TurnBatch } from './ports.ts';

/** Interval between retries of a commit refused for lack of space. */
const FULL_RETRY_MS = 100;
/** Requests waiting for a write that cannot reach the disk are answered after this long. */
const FULL_ANSWER_MS = 5000;

const DISK_FULL =
  'disk full: writes are refused with 507 until space is freed or streams are deleted; nothing acknowledged is lost';

export interface CommitsOptions {
  readonly shard: number;
  readonly groups: readonly Group[];
  readonly storage: ShardStorage;
  readonly log: Log;
  readonly runtime: Pick<Runtime, 'monotonicMs'>;
  /** The group's state up to its applied index is on disk, so the log before it may be compacted. */
  readonly checkpointed: (group: Group) => void;
}

export class Commits {
  readonly checkpoints: Checkpoints;
  readonly counters = { commits: 0, commitMicros: 0, checkpoints: 0 };
  readonly #options: CommitsOptions;
  /** Handed out by raft but not on disk, because the disk is full. */
  #pendingRetry: readonly TurnBatch[] = [];
  #fullSinceMs = 0;
  #retryAtMs = 0;
  #announcedFull = false;
  /** Applied index of each group's last checkpoint on disk. */
  readonly #checkpointed = new Map<number, number>();

  constructor(options: CommitsOptions) {
    this.#options = options;
    this.checkpoints = new Checkpoints(options.groups);
    for (const { state } of options.groups) this.#checkpointed.set(state.group, state.appliedIndex);
  }

  /** The disk is full: writes are refused until a commit succeeds. */
  get full(): boolean {
    return this.#fullSinceMs !== 0;
  }

  get retryAtMs(): number {
    return this.#retryAtMs;
  }

  /** Batches that wait for space; they come before anything new. */
  get pendingRetry(): readonly TurnBatch[] {
    return this.#pendingRetry;
  }

  lastCheckpoint(group: Group): number {
    return this.#checkpointed.get(group.id) ?? 0;
  }

  /** Makes the batches and the state of the `due` groups durable. False: the disk is full, nothing was written. */
  commit(batches: readonly TurnBatch[], due: readonly Group[], clockMs: number): boolean {
    if (this.full && clockMs < this.#retryAtMs) {
      this.#keep(batches);
      return false;
    }
    const { storage, runtime } = this.#options;
    const checkpoint = due.length === 0 ? undefined : (): void => due.forEach((group) => group.state.flush());
    const startedMs = runtime.monotonicMs();
    try {
      storage.commit(batches, checkpoint);
    } catch (error) {
      if (!(error instanceof StorageFullError)) throw error;
      this.#keep(batches);
      this.#becomeFull(clockMs);
      return false;
    }
    this.counters.commits++;
    this.counters.commitMicros += (runtime.monotonicMs() - startedMs) * 1000;
    if (batches.length > 0) this.#pendingRetry = [];
    this.#fullSinceMs = 0;
    for (const group of due) {
      group.state.flushed();
      this.#checkpointed.set(group.id, group.state.appliedIndex);
      this.#options.checkpointed(group);
    }
    this.counters.checkpoints += due.length;
    this.checkpoints.done(due, clockMs);
    return true;
  }

  /**
   * Once a tick. Near the limit commits fail and succeed by turns; the operator is told once, and again when there is
   * ample space.
   */
  noteSpace(): void {
    const room = !this.full && this.#options.storage.spaceLeft;
    if (room === !this.#announcedFull) return;
    if (room) this.#options.log('info', 'disk has room again: writes are accepted', { shard: this.#options.shard });
    else this.#options.log('error', DISK_FULL, { shard: this.#options.shard });
    this.#announcedFull = !room;
  }

  /** A commit without batches (a manual checkpoint) must not drop the waiting ones. */
  #keep(batches: readonly TurnBatch[]): void {
    if (batches.length > 0) this.#pendingRetry = batches;
  }

  #becomeFull(clockMs: number): void {
    const { groups } = this.#options;
    this.#retryAtMs = clockMs + FULL_RETRY_MS;
    if (!this.full) this.#fullSinceMs = clockMs;
    this.noteSpace();
    if (clockMs - this.#fullSinceMs > FULL_ANSWER_MS) for (const group of groups) group.failWaiting();
  }
}
