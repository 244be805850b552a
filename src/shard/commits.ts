/**
 * A shard's writes: what raft wants durable goes into the log (invariants 1 and 2), the state follows in checkpoints.
 * Handles a full disk: batches that could not be written are kept and retried, and new writes are refused meanwhile.
 */
import type { Runtime } from '../base/runtime.ts';
import type { Group } from '../group/group.ts';
import { Checkpoints, changedBytes } from './checkpoints.ts';
import { type Log, type ShardStorage, StorageFullError, type TurnBatch } from './ports.ts';

/** Interval between retries of a commit refused for lack of space. */
const FULL_RETRY_MS = 100;
/** Interval between looks at a checkpoint that is being written: a fraction of what it takes. */
export const LOOK_MS = 5;
/** So long after the last append the log is sealed: a busy shard appends again before. */
const SEAL_MS = 10;
/**
 * On a slow disk after so many times what the append took: sealing is a write as well, and the next append of a writer
 * that waits for each would wait for it.
 */
const SLOW_APPEND_MS = 5;
const SEAL_APPENDS = 4;
const SEAL_MS_MAX = 1000;
/** Requests waiting for a write that cannot reach the disk are answered after this long. */
const FULL_ANSWER_MS = 5000;

/**
 * Duration of a checkpoint from which on no turn waits for it: a leader that is silent for longer is replaced. And of a
 * write to the log from which on the shard waits for it: a leader that cannot write is to be silent.
 */
const STUCK_MS = 1000;
/** Duration of a write from which on the operator hears of it, and again whenever it has doubled. */
const SLOW_MS = 5000;

const SLOW = 'the disk is slow or hangs: a checkpoint is not on it yet; writes are refused when too much waits';
const SLOW_LOG = 'the disk is slow: a write to the log held up the shard';
const DISK_FULL =
  'disk full: writes are refused with 507 until space is freed or streams are deleted; nothing acknowledged is lost';

export interface CommitsOptions {
  readonly shard: number;
  readonly groups: readonly Group[];
  readonly storage: ShardStorage;
  readonly log: Log;
  readonly runtime: Pick<Runtime, 'monotonicMs'>;
  /** Counts begins and ends of writes to the log: odd while one is under way, for a thread that does not wait for it. */
  readonly logWrites?: Int32Array | undefined;
  /** The group's state up to `index` is on disk, so the log before it may be compacted. */
  readonly checkpointed: (group: Group, index: number) => void;
}

/** A group's state up to an index. */
interface Covered {
  readonly group: Group;
  readonly index: number;
}

export class Commits {
  readonly checkpoints: Checkpoints;
  readonly counters = { commits: 0, commitMicros: 0, checkpoints: 0 };
  readonly #options: CommitsOptions;
  readonly #logWrites: Int32Array;
  /** Handed out by raft but not on disk, because the disk is full. */
  #pendingRetry: readonly TurnBatch[] = [];
  /** When each is tried again; 0: the last one succeeded. They fail apart: the log has its space beforehand. */
  readonly #retryAtMs = { append: 0, checkpoint: 0 };
  #fullSinceMs = 0;
  /** When the log is sealed; Infinity: it is, or a record is being written. */
  #sealAtMs = 0;
  /** A record is being written, and since when. */
  #isAppending = false;
  #appendedMs = 0;
  #announcedFull = false;
  /** The checkpoint that is being written, and what one that found no space contained. */
  #underWay: readonly Covered[] | undefined;
  #unwritten: readonly Covered[] = [];
  /** When the checkpoint that is being written began, and how long it had taken when the operator was told. */
  #beganMs = 0;
  #toldMs = 0;
  /** Memory of the rows in both. */
  #writingBytes = 0;
  /** Applied index of each group's last checkpoint on disk. */
  readonly #checkpointed = new Map<number, number>();

  constructor(options: CommitsOptions) {
    this.#options = options;
    this.#logWrites = options.logWrites ?? new Int32Array(1);
    this.checkpoints = new Checkpoints(options.groups);
    for (const { state } of options.groups) this.#checkpointed.set(state.group, state.appliedIndex);
  }

  /** The disk is full: writes are refused until log and checkpoints can be written. */
  get full(): boolean {
    return this.#fullSinceMs !== 0;
  }

  get retryAtMs(): number {
    const { append, checkpoint } = this.#retryAtMs;
    return append === 0 || (checkpoint !== 0 && checkpoint < append) ? checkpoint : append;
  }

  /** Memory of what left the groups' state and is not known to be on disk. */
  get writingBytes(): number {
    return this.#writingBytes;
  }

  /** Milliseconds that the checkpoint which is being written has taken; 0: none is. */
  checkpointMs(clockMs: number): number {
    return this.#underWay === undefined ? 0 : clockMs - this.#beganMs;
  }

  /** Nothing that needs the state's file may be done, because it would wait. */
  isStuck(clockMs: number): boolean {
    return this.checkpointMs(clockMs) > STUCK_MS;
  }

  /** The group's state at this index, and not behind it, is being written. */
  isWriting(group: Group, index: number): boolean {
    return this.#underWay?.some((covered) => covered.group === group && covered.index === index) === true;
  }

  /** Batches that wait for space; they come before anything new. */
  get pendingRetry(): readonly TurnBatch[] {
    return this.#pendingRetry;
  }

  lastCheckpoint(group: Group): number {
    return this.#checkpointed.get(group.id) ?? 0;
  }

  /** The group has another state on disk, which may be older: a checkpoint of the one before covers nothing of it. */
  replaced(group: Group): void {
    this.#checkpointed.set(group.id, group.state.appliedIndex);
    this.#underWay = this.#underWay?.filter((covered) => covered.group !== group);
    this.#unwritten = this.#unwritten.filter((covered) => covered.group !== group);
  }

  /** Writes the batches, and endAppend() tells when they are on disk. False: the disk is full, and they come again. */
  append(batches: readonly TurnBatch[], how: 'wait' | 'behind', clockMs: number): boolean {
    const { runtime, storage } = this.#options;
    this.#pendingRetry = batches;
    if (clockMs < this.#retryAtMs.append) return false;
    this.#appendedMs = runtime.monotonicMs();
    this.#countWrite();
    let hasSpace = false;
    try {
      hasSpace = this.#hasSpace('append', clockMs, () => storage.append(batches, how));
    } finally {
      if (!hasSpace) this.#countWrite();
    }
    if (!hasSpace) return false;
    this.#pendingRetry = [];
    this.#succeeded('append');
    this.#isAppending = true;
    this.#sealAtMs = Infinity;
    return true;
  }

  /** Whether the batches that were being written are on disk. A disk that hangs is waited for: see STUCK_MS. */
  endAppend(how: 'look' | 'wait', clockMs: number): boolean {
    const { runtime, storage } = this.#options;
    if (!this.#isAppending) return true;
    const isLong = runtime.monotonicMs() - this.#appendedMs > STUCK_MS;
    let hasEnded = true;
    try {
      hasEnded = storage.endAppend(isLong ? 'wait' : how);
    } finally {
      if (hasEnded) this.#countWrite();
    }
    if (!hasEnded) return false;
    this.#isAppending = false;
    const tookMs = runtime.monotonicMs() - this.#appendedMs;
    const isSlow = tookMs > SLOW_APPEND_MS;
    this.#sealAtMs = clockMs + (isSlow ? Math.min(SEAL_APPENDS * tookMs, SEAL_MS_MAX) : SEAL_MS);
    this.counters.commits++;
    this.counters.commitMicros += tookMs * 1000;
    if (tookMs > SLOW_MS) this.#tell('warn', SLOW_LOG, storage.paths.log, tookMs);
    return true;
  }

  #countWrite(): void {
    Atomics.add(this.#logWrites, 0, 1);
  }

  /** Makes the state of the `due` groups durable, and waits. False: the disk is full or hangs; nothing was written. */
  checkpoint(due: readonly Group[], clockMs: number): boolean {
    if (this.isStuck(clockMs)) return false;
    if (!this.#end('wait', clockMs) || clockMs < this.#retryAtMs.checkpoint) return false;
    this.#start(due, clockMs);
    return this.#end('wait', clockMs);
  }

  /** Begins to write `first` and what is due, or whatever has changed, unless something is being written. */
  checkpointBehind(which: 'due' | 'changed', clockMs: number, first: readonly Group[] = []): void {
    if (clockMs >= this.#sealAtMs) {
      this.#sealAtMs = Infinity;
      this.#countWrite();
      try {
        this.#options.storage.seal();
      } finally {
        this.#countWrite();
      }
    }
    if (!this.#end('look', clockMs) || this.#underWay !== undefined || clockMs < this.#retryAtMs.checkpoint) return;
    const others = this.checkpoints.due(clockMs, which);
    const due = first.length === 0 ? others : [...new Set([...first, ...others])];
    // Batches that found no space come again, with or without something new.
    if (due.length === 0 && !this.full) return;
    this.#start(due, clockMs);
    this.#end('look', clockMs);
  }

  /** Milliseconds until checkpointBehind() has something to do; Infinity: nothing. */
  checkpointWaitMs(clockMs: number): number {
    const waitMs = this.#underWay === undefined ? this.checkpoints.waitMs(clockMs) : LOOK_MS;
    return Math.min(waitMs, this.#sealAtMs - clockMs);
  }

  #start(due: readonly Group[], clockMs: number): void {
    for (const { state } of due) this.#writingBytes += changedBytes(state);
    this.#options.storage.startCheckpoint(() => due.forEach((group) => group.state.flush()));
    const covered = due.map((group) => ({ group, index: group.state.appliedIndex }));
    this.#underWay = [...this.#unwritten, ...covered];
    this.#beganMs = clockMs;
    this.#unwritten = [];
    for (const group of due) group.state.flushed();
    this.checkpoints.done(due, clockMs);
  }

  /** False: the disk is full. True also while it is being written. */
  #end(how: 'look' | 'wait', clockMs: number): boolean {
    const { storage, checkpointed } = this.#options;
    const covered = this.#underWay;
    if (covered === undefined) return true;
    let isOnDisk = false;
    const hasSpace = this.#hasSpace('checkpoint', clockMs, () => (isOnDisk = storage.endCheckpoint(how)));
    if (hasSpace && !isOnDisk) return true;
    if (this.#toldMs > 0)
      this.#tell('info', 'the checkpoint that took long has ended', storage.paths.state, this.checkpointMs(clockMs));
    this.#toldMs = 0;
    this.#underWay = undefined;
    if (!hasSpace) {
      // Its rows go with the next one.
      this.#unwritten = covered;
      return false;
    }
    this.#succeeded('checkpoint');
    this.#writingBytes = 0;
    for (const { group, index } of covered) {
      this.#checkpointed.set(group.id, index);
      checkpointed(group, index);
    }
    this.counters.checkpoints += covered.length;
    return true;
  }

  /** Once a tick. */
  noteSlow(clockMs: number): void {
    const takenMs = this.checkpointMs(clockMs);
    if (takenMs < Math.max(SLOW_MS, 2 * this.#toldMs)) return;
    this.#toldMs = takenMs;
    this.#tell('warn', SLOW, this.#options.storage.paths.state, takenMs);
  }

  #tell(level: 'info' | 'warn', sentence: string, file: string, takenMs: number): void {
    const { log, shard } = this.#options;
    log(level, sentence, { shard, file, seconds: Math.round(takenMs / 1000) });
  }

  #hasSpace(what: 'append' | 'checkpoint', clockMs: number, write: () => void): boolean {
    try {
      write();
    } catch (error) {
      if (!(error instanceof StorageFullError)) throw error;
      this.#retryAtMs[what] = clockMs + FULL_RETRY_MS;
      this.#becomeFull(clockMs);
      return false;
    }
    return true;
  }

  #succeeded(what: 'append' | 'checkpoint'): void {
    this.#retryAtMs[what] = 0;
    if (this.retryAtMs === 0) this.#fullSinceMs = 0;
  }

  /** Once a tick. Near the limit commits fail and succeed by turns; operators hear of it once, then of ample space. */
  noteSpace(): void {
    const room = !this.full && this.#options.storage.spaceLeft;
    if (room === !this.#announcedFull) return;
    if (room) this.#options.log('info', 'disk has room again: writes are accepted', { shard: this.#options.shard });
    else this.#options.log('error', DISK_FULL, { shard: this.#options.shard });
    this.#announcedFull = !room;
  }

  #becomeFull(clockMs: number): void {
    const { groups } = this.#options;
    if (!this.full) this.#fullSinceMs = clockMs;
    this.noteSpace();
    if (clockMs - this.#fullSinceMs > FULL_ANSWER_MS) for (const group of groups) group.failWaiting();
  }
}
