/**
 * A shard's durable storage: its log in segment files and its applied state in an LMDB environment.
 * Implements the port that the turn loop writes through.
 */
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import type { LogReader, LostLog } from '../raft/types.ts';
import {
  type RowRange,
  StorageFullError,
  type ShardStorage,
  type StoragePaths,
  type SnapshotReader,
  type StoredVote,
  type TurnBatch,
} from '../shard/ports.ts';
import { OWN_TAG, OTHER_HALF, prefixKey, systemKey } from './rows.ts';
import type { RowDamage } from '../base/row-damage.ts';
import { applyChanges } from '../base/overlay.ts';
import { eachRow } from '../base/row-bytes.ts';
import { planted } from '../base/planted.ts';
import { assert } from '../base/assert.ts';
import type { Runtime } from '../base/runtime.ts';
import { type CheckpointWriter, InlineWriter, type WriteOutcome } from './checkpoint-writer.ts';
import { convertRows } from './convert-rows.ts';
import { Environment, LmdbTx } from './environment.ts';
import { DiskFolder, type LogFolder, isOutOfSpace } from './log-files.ts';
import { LogDamage } from './log-record.ts';
import type { Salvage } from './log-salvage.ts';
import { StoreFiles } from './named-file.ts';
import { OwnRows } from './own-rows.ts';
import { type LogFinding, LogStore } from './log-store.ts';
import type { LogSyncer } from './log-sync.ts';
import { RowScrub } from './scrub.ts';
import type { SegmentSizes } from './segments.ts';
import type { LogMemory } from './turn-log.ts';
import { endForeignLine, isFull, makeShardFolder, refusalOfStart, segmentSizes, stateError } from './volume.ts';
import { WriteBehind } from './write-behind.ts';

/** Space kept free on the volume, for the commits between two samples. On a small volume a twentieth of it. */
const RESERVE_BYTES_MAX = 64 * 1024 * 1024;
/** Bytes on disk for a byte of log: the log itself, the rows of a checkpoint, and the pages around them. */
const SPACE_FACTOR = 3;

/** The log of a group that is not run. */
const NO_LOG: LogReader = { firstIndex: () => 1, lastIndex: () => 0, term: () => 0, entries: () => [] };

export interface StoreOptions {
  readonly runtime: Pick<Runtime, 'randomBytes'>;
  /** Instead of a damaged log another one begins with what can be read of it. */
  readonly salvages?: boolean;
  /** Writes checkpoints in a thread of its own; undefined: the caller's thread writes them. */
  readonly writer?: (directory: string) => CheckpointWriter;
  /** Syncs the log while the shard goes on; undefined: each sync is waited for. */
  readonly syncer?: LogSyncer;
  /** Replaces LMDB and the file system in the simulator. */
  readonly disk?: { readonly environment: Environment; readonly folder: LogFolder; readonly sizes: SegmentSizes };
}

/** A report of a start, for the operator. */
export interface StoreFinding extends LogFinding {
  /** Rows of a version before that got checksums. */
  readonly checkedRows?: number;
  /** Why the log could not be read, and where it is now. */
  readonly lost?: { readonly why: string; readonly aside: string | undefined };
  /** Pages of the data file could not be read: it was rebuilt without them. */
  readonly rebuilt?: {
    readonly why: string;
    readonly aside: string;
    readonly keptBytes: number;
    readonly torn: readonly number[];
  };
  readonly salvaged?: Salvage & { readonly why: string };
}

export class ShardStore extends OwnRows implements ShardStorage {
  readonly tx: WriteBehind;
  readonly #writer: CheckpointWriter;
  /** A checkpoint was started, and the shard does not know its end yet; how it ended. */
  #isWriting = false;
  #outcome: WriteOutcome | undefined;
  readonly #directory: string;
  /** Undefined in the simulator, which has no names. */
  readonly #files: StoreFiles | undefined;
  readonly #environment: Environment;
  readonly #log: LogStore;
  readonly #salvages: boolean;
  readonly #groups: number[] = [];
  /** Groups that no other node has: nothing is given up of them. */
  #sole: ReadonlySet<number> = new Set();
  readonly scrub: RowScrub;
  readonly #noticed = (damage: RowDamage): void => this.onDamage(damage);
  /** Snapshots that have taken over although the log could not be written yet: their batches come again. */
  readonly #installed = new WeakSet<TurnBatch>();
  readonly paths: StoragePaths;
  found: StoreFinding = {};
  spaceLeft = true;
  roomToGrow = true;
  /** Rows deleted per commit when a half is emptied: some 10 ms for which the groups of the shard wait. */
  clearRowsMax = 512;
  onDamage: (damage: RowDamage) => void = () => undefined;
  /** Bytes that checkpoints will write for what is already in the log. */
  owedBytes: () => number = () => 0;
  /** Bytes that may be written before the next sample. */
  #budgetBytes = Infinity;

  constructor(directory: string, { runtime, salvages = false, writer, syncer, disk }: StoreOptions) {
    super();
    this.#directory = directory;
    this.paths = { log: join(directory, 'log'), state: join(directory, 'data.mdb') };
    this.#salvages = salvages;
    if (disk === undefined) makeShardFolder(directory);
    this.#environment = disk?.environment ?? new Environment(directory);
    this.#files = disk === undefined ? new StoreFiles(this.paths) : undefined;
    this.found = this.#orFail(() => convertRows(this.#environment));
    this.scrub = new RowScrub(this.#environment, this.#noticed);
    const rows = new LmdbTx(this.#environment.state, {
      noticed: this.#noticed,
      doubted: () => this.#environment.doubt(),
      beforeWrite: (key, change) => this.#environment.beforeWrite(key, change),
      beforeWalk: (walk) => this.#environment.beforeWalk(walk),
    });
    this.tx = new WriteBehind(rows);
    this.#writer = writer?.(directory) ?? new InlineWriter((write) => this.#environment.commit(write), rows);
    this.#log = new LogStore({
      environment: this.#environment,
      tx: this.tx,
      folder: disk?.folder ?? new DiskFolder(this.paths.log),
      sizes: disk?.sizes ?? segmentSizes(directory),
      randomBytes: runtime.randomBytes,
      syncer,
    });
  }

  openLog(group: number, appliedIndex: number, appliedTerm: number): LogReader {
    this.#groups.push(group);
    return this.#log.turns.open(group, appliedIndex, appliedTerm);
  }

  /** The only node with such a group keeps its log as it is; others lose the group, and are restored. */
  abandonLog(group: number): LogReader {
    this.#groups.push(group);
    const log = this.#log.abandon(group);
    const shown = (): LogReader => (this.#isKept(group) ? NO_LOG : log);
    return {
      firstIndex: () => shown().firstIndex(),
      lastIndex: () => shown().lastIndex(),
      term: (index) => shown().term(index),
      entries: (lo, hi, maxBytes) => shown().entries(lo, hi, maxBytes),
    };
  }

  /** Its state cannot be opened, and its log stays until a leader's state takes over. */
  #isKept(group: number): boolean {
    return this.#sole.has(group) && this.#log.abandoned.has(group);
  }

  load(sole: readonly number[]): void {
    this.#sole = new Set(sole);
    try {
      this.found = { ...this.found, ...this.#log.load() };
    } catch (error) {
      if (!(error instanceof LogDamage)) this.#failed(error);
      if (this.#salvages) this.found = { ...this.found, salvaged: { ...this.#log.salvage(), why: error.message } };
      else if (this.#sole.size > 0) throw refusalOfStart(this.#directory, error.message, this.found.rebuilt?.aside);
      else this.#loseLog(error.message);
    }
    this.#loseGroups();
  }

  /** Those without a state, and those whose vote is not known. */
  #loseGroups(): void {
    const { abandoned, turns } = this.#log;
    const isLost = (group: number): boolean =>
      !this.#sole.has(group) &&
      (abandoned.has(group) || (this.isVoteChanged(group) && turns.vote(group) === undefined));
    const lost = this.#groups.filter(isLost);
    if (lost.length === 0) return;
    const unopened = lost.filter((group) => abandoned.has(group));
    this.commit(() => {
      lost.forEach((group) => this.putLost(group));
      for (const group of unopened) this.#log.cut(group, this.vote(group));
    });
    for (const group of unopened) turns.of(group).restartAt(0, 0);
  }

  #loseLog(why: string): void {
    // First: a start that ends between the steps is followed by one that finds an empty log.
    this.setLost(
      this.#groups.filter((group) => this.lost(group) === 0),
      2,
    );
    const aside = this.#orFail(() => this.#log.replace());
    this.commit(() => this.#log.write());
    this.#log.written();
    this.found = { ...this.found, lost: { why, aside } };
  }

  #orFail<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      this.#failed(error);
    }
  }

  override vote(group: number): StoredVote {
    return this.#log.turns.vote(group) ?? super.vote(group);
  }

  override lost(group: number): LostLog {
    const lost = super.lost(group);
    return lost === 0 && this.#isKept(group) ? 2 : lost;
  }

  append(turn: readonly TurnBatch[], how: 'wait' | 'behind' = 'wait'): void {
    const batches = planted('conflict-not-written') ? this.#log.turns.withoutConflicts(turn) : turn;
    this.#install(batches);
    try {
      this.#log.turns.append(batches, how);
    } catch (error) {
      throw isOutOfSpace(error) ? new StorageFullError({ cause: error }) : error;
    }
    this.#spend(batches);
  }

  endAppend(how: 'look' | 'wait'): boolean {
    return this.#log.turns.segments.endSync(how);
  }

  seal(): void {
    this.#log.seal();
  }

  startCheckpoint(write: () => void): void {
    assert(!this.#isWriting, 'one checkpoint is written at a time');
    this.#files?.check(this.#log.turns.segments.used.at(-1)?.file.name);
    this.tx.collect(() => {
      if (!planted('checkpoint-not-written')) write();
      this.#log.write();
    });
    this.#isWriting = true;
    this.#outcome = undefined;
    this.#writer.start(this.tx.pending);
  }

  endCheckpoint(how: 'look' | 'wait'): boolean {
    if (!this.#isWriting) return true;
    const outcome = this.#outcomeOf(how);
    if (outcome === undefined) return false;
    this.#isWriting = false;
    if (outcome !== 'written') throw stateError(this.#directory, outcome.failed);
    this.#log.written();
    return true;
  }

  #outcomeOf(how: 'look' | 'wait'): WriteOutcome | undefined {
    if (this.#outcome !== undefined) return this.#outcome;
    this.#outcome = how === 'wait' ? this.#writer.wait() : this.#writer.outcome();
    if (this.#outcome === 'written') this.#rowsAreOnDisk();
    return this.#outcome;
  }

  #rowsAreOnDisk(): void {
    this.#environment.refresh();
    this.tx.clear();
  }

  #failed(error: unknown): never {
    endForeignLine();
    throw stateError(this.#directory, error);
  }

  /** Received snapshots take over. What the log holds of their groups ends with the same commit, unless it goes on. */
  #install(batches: readonly TurnBatch[]): void {
    const installs = batches.filter((batch) => batch.snapshot !== undefined && !this.#installed.has(batch));
    if (installs.length === 0) return;
    this.commit(() => {
      for (const { group, hardState, keepsLog } of installs) {
        this.putFlag(systemKey(OWN_TAG.half, group), this.prefix(group) === group ? 1 : 0);
        this.putFlag(systemKey(OWN_TAG.torn, group), 0);
        if (keepsLog !== true || planted('repair-cuts-log')) this.#log.cut(group, hardState);
      }
    });
    for (const batch of installs) {
      this.#installed.add(batch);
      this.#log.abandoned.delete(batch.group);
    }
  }

  compact(group: number, index: number): void {
    this.#log.turns.of(group).drop(index);
  }

  compactable(group: number, index: number, keepBytes: number): number {
    return this.#log.turns.of(group).compactable(index, keepBytes);
  }

  logBytesBehind(group: number, index: number): number {
    return this.#log.turns.of(group).bytesBehind(index);
  }

  get logFileBytes(): number {
    return this.#log.turns.segments.bytes;
  }

  get logSegments(): number {
    return this.#log.turns.segments.count;
  }

  get logMemoryBytes(): number {
    return this.#log.turns.memoryBytes;
  }

  get logReadBack(): number {
    return this.#log.turns.readBack;
  }

  setLogMemory(memory: LogMemory): void {
    this.#log.turns.memory = memory;
  }

  /**
   * Samples the space that commits can still use: free on the volume, and free pages inside the file. The host calls
   * this a few times a second. Between two samples commit() counts what it writes and samples again when that is used
   * up. Throws FileGone when the directory is not there any more.
   */
  sampleSpace(): void {
    this.#files?.check(this.#log.turns.segments.used.at(-1)?.file.name);
    const { bavail, blocks, bsize } = statfsSync(this.#directory);
    const reserve = Math.min(RESERVE_BYTES_MAX, (blocks * bsize) / 20);
    const newBytes = bavail * bsize - reserve - this.owedBytes();
    this.#budgetBytes = newBytes + this.#environment.freeBytes();
    this.roomToGrow = newBytes > reserve;
    if (!this.roomToGrow && this.#log.turns.segments.trim()) return this.sampleSpace();
    // After a refusal more than the minimum must be free, or refusals would come and go with every checkpoint.
    this.spaceLeft = this.#budgetBytes > (this.spaceLeft ? 0 : reserve / 4);
  }

  openSnapshot(group: number): SnapshotReader {
    const prefix = this.prefix(group);
    return this.openRanges([[prefixKey(prefix), prefixKey(prefix + 1)]]);
  }

  openRanges(ranges: readonly RowRange[]): SnapshotReader {
    return this.#environment.openRanges(ranges, this.#noticed);
  }

  stage(group: number, pieces: readonly Uint8Array[]): void {
    const prefix = this.#stagePrefix(group);
    this.commit(() => {
      for (const rows of pieces) for (const { key, value } of eachRow(rows, prefix)) this.tx.put(key, value);
    });
  }

  clearStage(group: number): boolean {
    const start = prefixKey(this.#stagePrefix(group));
    const end = prefixKey(this.#stagePrefix(group) + 1);
    const keys: Uint8Array[] = [];
    this.tx.keys(start, end, (key) => keys.push(key.slice()) < this.clearRowsMax);
    if (keys.length > 0) this.commit(() => keys.forEach((key) => this.tx.delete(key)));
    return keys.length < this.clearRowsMax;
  }

  #stagePrefix(group: number): number {
    return this.prefix(group) === group ? group + OTHER_HALF : group;
  }

  #spend(batches: readonly TurnBatch[]): void {
    for (const { entries } of batches) {
      for (const { data } of entries) this.#budgetBytes -= SPACE_FACTOR * data.length;
    }
    if (this.#budgetBytes <= 0 && this.spaceLeft) this.sampleSpace();
  }

  /**
   * One commit of LMDB, on disk when it returns; a full volume becomes StorageFullError. Never beside a checkpoint,
   * whose rows would come later although they are older; one that found no room is written before.
   */
  protected commit(write: () => void): void {
    const outcome = this.#isWriting ? this.#outcomeOf('wait') : undefined;
    if (typeof outcome === 'object' && !isFull(this.#directory, outcome.failed)) this.#failed(outcome.failed);
    const hasFailed = outcome === undefined ? this.tx.hasPending : outcome !== 'written';
    this.#orFail(() =>
      this.#environment.commit(() => {
        if (hasFailed) applyChanges(this.tx, this.tx.pending);
        write();
      }),
    );
    if (!hasFailed) return;
    this.#outcome = 'written';
    this.#rowsAreOnDisk();
  }

  async close(): Promise<void> {
    await this.#log.turns.close();
    await this.#writer.close();
    await this.#environment.close();
  }
}
