/** A shard's durable storage over one LMDB environment: implements the port that the turn loop commits through. */
import { mkdirSync, statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import type { Configuration, LogReader } from '../raft/types.ts';
import { StorageFullError, type ShardStorage, type StoredVote, type TurnBatch } from '../shard/ports.ts';
import { Environment, LmdbTx } from './environment.ts';
import { TurnLog } from './turn-log.ts';

/** Values of old log records deleted per commit: keeps one commit from paying for a long backlog. */
const TRIM_VALUES_MAX = 1024;
/** Space kept free on the volume: covers the commits between two samples. A twentieth of a small volume. */
const RESERVE_BYTES_MAX = 64 * 1024 * 1024;
const VOTE_TAG = 0x76;

export class ShardStore implements ShardStorage {
  readonly tx: LmdbTx;
  readonly #directory: string;
  readonly #environment: Environment;
  readonly #log: TurnLog;
  spaceLeft = true;

  constructor(directory: string) {
    mkdirSync(directory, { recursive: true });
    this.#directory = directory;
    this.#environment = new Environment(directory);
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
    const row = this.tx.get(voteKey(group));
    if (row === undefined) return { term: 0, vote: 0 };
    const view = new DataView(row.buffer, row.byteOffset, 16);
    return { term: view.getFloat64(0, true), vote: view.getFloat64(8, true) };
  }

  /** Membership changes come with the cluster; a single node's configuration is itself. */
  configuration(_group: number): Configuration | undefined {
    return undefined;
  }

  get doomedRecords(): number {
    return this.#log.doomedCount;
  }

  commit(batches: readonly TurnBatch[], checkpoint: (() => void) | undefined): void {
    let hasEntries = false;
    for (const batch of batches) if (batch.entries.length > 0) hasEntries = true;
    let trimmed = 0;
    try {
      this.#environment.commit(() => {
        if (hasEntries) this.#log.write(batches);
        trimmed = this.#log.trim(TRIM_VALUES_MAX);
        for (const { group, hardState } of batches) {
          if (hardState !== undefined) this.#putVote(group, hardState.term, hardState.vote);
        }
        checkpoint?.();
      });
    } catch (error) {
      if (this.#isFull(error)) throw new StorageFullError({ cause: error });
      throw error;
    }
    this.#log.trimmed(trimmed);
    if (hasEntries) this.#log.appended(batches);
  }

  purge(group: number, index: number): void {
    this.#log.purge(group, index);
  }

  /** Samples the free space of the volume; the host calls this a few times a second. */
  async sampleSpace(): Promise<void> {
    const { bavail, blocks, bsize } = await statfs(this.#directory);
    this.spaceLeft = bavail * bsize > Math.min(RESERVE_BYTES_MAX, (blocks * bsize) / 20);
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
    return bavail * bsize < 1024 * 1024;
  }

  #putVote(group: number, term: number, vote: number): void {
    const row = new Uint8Array(16);
    const view = new DataView(row.buffer);
    view.setFloat64(0, term, true);
    view.setFloat64(8, vote, true);
    this.tx.put(voteKey(group), row);
  }
}

function voteKey(group: number): Uint8Array {
  return new Uint8Array([group >> 8, group & 0xff, VOTE_TAG]);
}
