/** A shard's durable storage over one LMDB environment: implements the port that the turn loop commits through. */
import { mkdirSync, statfsSync, writeSync } from 'node:fs';
import type { LogReader } from '../raft/types.ts';
import {
  StorageFullError,
  type ShardStorage,
  type SnapshotReader,
  type DirectoryStorage,
  type StoredVote,
  type TurnBatch,
} from '../shard/ports.ts';
import { OTHER_HALF } from './key-space.ts';
import type { DirectoryRun } from '../peer/codec/standing.ts';
import { eachRow } from '../base/row-bytes.ts';
import { readText } from '../base/text.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import { planted } from '../base/planted.ts';
import { Environment, LmdbTx } from './environment.ts';
import {
  HALF_TAG,
  LOST_TAG,
  PEER_ROW,
  USED_TAG,
  VOTE_ROW,
  VOTE_TAG,
  halfOf,
  peerKey,
  prefixKey,
  systemKey,
} from './rows.ts';
import { RUN_KEY, type ShardRun, decodeRun, encodeRun } from './run-row.ts';
import { type LogMemory, TurnLog } from './turn-log.ts';

/** Values of old log records deleted per commit, so that no single commit pays for a long backlog. */
const TRIM_VALUES_MAX = 1024;
/** Space kept free on the volume, for the commits between two samples. On a small volume a twentieth of it. */
const RESERVE_BYTES_MAX = 64 * 1024 * 1024;
/** Bytes on disk for a byte of log: the log itself, the rows of a checkpoint, and the pages around them. */
const SPACE_FACTOR = 3;

const STDERR_FD = 2;

export class ShardStore implements ShardStorage, DirectoryStorage {
  readonly tx: LmdbTx;
  readonly #directory: string;
  readonly #environment: Environment;
  readonly #log: TurnLog;
  spaceLeft = true;
  roomToGrow = true;
  /**
   * Rows deleted per commit when a snapshot's half is emptied: some 10 ms during which the groups of the shard wait.
   */
  clearRowsMax = 512;
  /** Bytes that checkpoints will write for what is already in the log. */
  owedBytes: () => number = () => 0;
  /** What may be written before the next sample. */
  #budgetBytes = Infinity;

  /** `environment` replaces LMDB in the simulator. */
  constructor(directory: string, environment?: Environment) {
    this.#directory = directory;
    if (environment === undefined) makeShardFolder(directory);
    this.#environment = environment ?? new Environment(directory);
    this.#log = new TurnLog(this.#environment);
    this.tx = new LmdbTx(this.#environment.state);
  }

  openLog(group: number, appliedIndex: number, appliedTerm: number): LogReader {
    return this.#log.open(group, appliedIndex, appliedTerm);
  }

  load(): void {
    this.#log.load();
  }

  vote(group: number): StoredVote {
    const row = this.tx.get(systemKey(VOTE_TAG, group));
    return row === undefined ? { term: 0, vote: 0 } : VOTE_ROW.decode(row);
  }

  prefix(group: number): number {
    return halfOf(group, this.tx.get(systemKey(HALF_TAG, group)));
  }

  lost(group: number): boolean {
    return this.tx.get(systemKey(LOST_TAG, group)) !== undefined && !planted('lost-marker-forgotten');
  }

  setLost(groups: readonly number[], lost: boolean): void {
    this.#guarded(() => groups.forEach((group) => this.#putFlag(systemKey(LOST_TAG, group), lost)));
  }

  peerRun(node: number): DirectoryRun | undefined {
    const row = this.tx.get(peerKey(node));
    if (row === undefined) return undefined;
    const directory = readText(row, PEER_ROW.size, row.length - PEER_ROW.size);
    return { directory, ...PEER_ROW.decode(row) };
  }

  rememberPeer(node: number, run: DirectoryRun): void {
    const row = PEER_ROW.encode(run, encodeUtf8(run.directory));
    this.#guarded(() => this.tx.put(peerKey(node), row));
  }

  /** The run of the data directory that this store was last used in; undefined: no version that notes it has used it. */
  get lastRun(): ShardRun | undefined {
    const row = this.tx.get(RUN_KEY);
    if (row === undefined) return undefined;
    const run = decodeRun(row);
    if (run === undefined)
      throw new Error(
        `${this.#directory}: its note of the last run is damaged; restore the data directory from a copy`,
      );
    return run;
  }

  /** On disk when it returns. */
  noteRun(run: ShardRun): void {
    this.#guarded(() => this.tx.put(RUN_KEY, encodeRun(run)));
  }

  get fresh(): boolean {
    return this.tx.get(systemKey(USED_TAG, 0)) === undefined;
  }

  markUsed(lost: readonly number[]): void {
    this.#guarded(() => {
      this.#putFlag(systemKey(USED_TAG, 0), true);
      for (const group of lost) this.#putFlag(systemKey(LOST_TAG, group), true);
    });
  }

  get recordsToDelete(): number {
    return this.#log.toDeleteCount;
  }

  commit(turn: readonly TurnBatch[], checkpoint: (() => void) | undefined): void {
    const batches = planted('conflict-not-written') ? this.#log.withoutConflicts(turn) : turn;
    let hasEntries = false;
    for (const batch of batches) if (batch.entries.length > 0 || batch.snapshot !== undefined) hasEntries = true;
    let trimmed = 0;
    this.#guarded(() => {
      if (hasEntries) this.#log.write(batches);
      trimmed = this.#log.trim(TRIM_VALUES_MAX);
      for (const { group, hardState, snapshot } of batches) {
        if (hardState !== undefined && !planted('vote-not-persisted'))
          this.#putVote(group, hardState.term, hardState.vote);
        if (snapshot !== undefined) this.#putFlag(systemKey(HALF_TAG, group), this.prefix(group) === group);
      }
      if (!planted('checkpoint-not-written')) checkpoint?.();
    });
    this.#spend(batches);
    this.#log.trimmed(trimmed);
    if (hasEntries) this.#log.appended(batches);
  }

  compact(group: number, index: number): void {
    this.#log.compact(group, index);
  }

  compactable(group: number, index: number, keepBytes: number): number {
    return this.#log.compactable(group, index, keepBytes);
  }

  logBytesBehind(group: number, index: number): number {
    return this.#log.bytesBehind(group, index);
  }

  get logMemoryBytes(): number {
    return this.#log.memoryBytes;
  }

  /** Entries of the log that were read back from disk. */
  get logReadBack(): number {
    return this.#log.readBack;
  }

  setLogMemory(memory: LogMemory): void {
    this.#log.memory = memory;
  }

  /**
   * Samples the space that commits can still use: free on the volume, and free pages inside the file. The host calls
   * this a few times a second. Between two samples commit() counts what it writes and samples again when that is used
   * up.
   */
  sampleSpace(): void {
    const { bavail, blocks, bsize } = statfsSync(this.#directory);
    const reserve = Math.min(RESERVE_BYTES_MAX, (blocks * bsize) / 20);
    const newBytes = bavail * bsize - reserve - this.owedBytes();
    this.#budgetBytes = newBytes + this.#environment.freeBytes();
    this.roomToGrow = newBytes > reserve;
    // After a refusal more than the minimum must be free, or refusals would come and go with every checkpoint.
    this.spaceLeft = this.#budgetBytes > (this.spaceLeft ? 0 : reserve / 4);
  }

  openSnapshot(group: number): SnapshotReader {
    const prefix = this.prefix(group);
    return this.#environment.openRanges([[prefixKey(prefix), prefixKey(prefix + 1)]]);
  }

  stage(group: number, pieces: readonly Uint8Array[]): void {
    const prefix = this.#stagePrefix(group);
    this.#guarded(() => {
      for (const rows of pieces) for (const { key, value } of eachRow(rows, prefix)) this.tx.put(key, value);
    });
  }

  clearStage(group: number): boolean {
    const start = prefixKey(this.#stagePrefix(group));
    const end = prefixKey(this.#stagePrefix(group) + 1);
    const keys: Uint8Array[] = [];
    this.tx.range(start, end, false, (key) => keys.push(key.slice()) < this.clearRowsMax);
    if (keys.length > 0) this.#guarded(() => keys.forEach((key) => this.tx.delete(key)));
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

  /** One commit; a full volume becomes StorageFullError. */
  #guarded(write: () => void): void {
    try {
      this.#environment.commit(write);
    } catch (error) {
      endForeignLine();
      if (this.#isFull(error)) throw new StorageFullError({ cause: error });
      throw error;
    }
  }

  #putFlag(key: Uint8Array, on: boolean): void {
    if (on) this.tx.put(key, new Uint8Array([1]));
    else this.tx.delete(key);
  }

  async close(): Promise<void> {
    await this.#environment.close();
  }

  /** LMDB reports a short write to a full volume as EIO, so the volume itself is asked too. */
  #isFull(error: unknown): boolean {
    const { code, message } = error as { code?: unknown; message?: string };
    if (code === 'ENOSPC' || code === 28 || code === 'EDQUOT' || /no space left|quota/i.test(message ?? ''))
      return true;
    if (code !== 5 && code !== 'EIO' && !/input\/output/i.test(message ?? '')) return false;
    const { bavail, bsize } = statfsSync(this.#directory);
    return bavail * bsize < SHORT_WRITE_BYTES;
  }

  #putVote(group: number, term: number, vote: number): void {
    this.tx.put(systemKey(VOTE_TAG, group), VOTE_ROW.encode({ term, vote }));
  }
}

/** Not recursive: a data directory that disappeared since the start is not created again. */
function makeShardFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/**
 * A write ends short when less is left than it wanted, and returns what it took: a turn with a checkpoint is some MiB.
 */
const SHORT_WRITE_BYTES = 8 * 1024 * 1024;

/** LMDB prints the reason of a failed write to stderr without a line end, and the next log line would not be JSON. */
function endForeignLine(): void {
  try {
    writeSync(STDERR_FD, '\n');
  } catch {
    // It is never read.
  }
}
