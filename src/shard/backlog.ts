/**
 * The part of what this node took that no checkpoint has written: changed state in memory, and entries in the log that
 * are not applied. Both are bounded, however slow the disk is. At the first bound entries wait in the log, and writes
 * for their answers. At the second one the shard takes no more: clients get 503, and leaders keep what it lacks.
 */
import { ENTRY_FILL_BYTES } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import type { Group } from '../group/group.ts';
import type { Entry } from '../raft/types.ts';
import { changedBytes } from './checkpoints.ts';
import type { Commits } from './commits.ts';
import type { ShardStorage } from './ports.ts';
import type { ShardStatus } from './summaries.ts';

const MIB = 1024 * 1024;
/**
 * Changed bytes of a node, divided among its shards. Writing them out takes three times as much for a moment: the rows,
 * their copy for the thread that writes, and the pages. With logs, caches and bodies on their way that is 600 MiB.
 */
const NODE_BYTES = 128 * MIB;
/** Bounds of one shard's share: what a slow disk takes in a second, and half of the largest body. */
const SHARD_BYTES = { min: 16 * MIB, max: 64 * MIB };

/**
 * Bound of each shard while it applies the log of the process before: what it reads of it, and rows that are written,
 * are garbage until V8 collects, which it begins after 64 MiB.
 */
export const REPLAY_BYTES_MAX = SHARD_BYTES.min;

export function changedBytesMax(shardCount: number): number {
  return Math.max(SHARD_BYTES.min, Math.min(SHARD_BYTES.max, NODE_BYTES / shardCount));
}

/** From this part of the bound on, checkpoints come without a pause. */
const HURRY_PART = 3 / 4;
/** Changed bytes per byte of a log with small appends to many streams. */
const GROWTH = 8;

/** Bytes of entries that may be applied before the next look at the room: one entry of small commands, or less. */
export function pieceBytes(room: number): number {
  return Math.max(0, Math.min(ENTRY_FILL_BYTES, room / GROWTH));
}

/** Applies `entries`, and those behind them as long as there is room; returns by how much the group's changes grew. */
export function applyWithin(room: number, group: Group, entries: readonly Entry[]): number {
  const before = changedBytes(group.state);
  let grown = 0;
  for (let next = entries; next.length > 0;) {
    group.applyCommitted(next);
    grown = changedBytes(group.state) - before;
    const bytesMax = pieceBytes(room - grown);
    next = bytesMax > 0 ? group.raft.takeCommitted(bytesMax) : [];
  }
  return grown;
}

/** Part of the bound that entries may take which are in the log and wait to be applied. */
const WAITING_PART = 1 / 2;
export interface BacklogOptions {
  readonly groups: readonly Group[];
  readonly commits: Pick<Commits, 'writingBytes'>;
  readonly storage: Pick<ShardStorage, 'logBytesBehind'>;
  readonly changedBytesMax: number;
  /** The same until each group has applied the log that it started with. */
  readonly replayBytesMax: number;
  readonly isReplaying: () => boolean;
}

export class Backlog {
  readonly #options: BacklogOptions;
  /** The shard takes no more: as of the last look. */
  isFull = false;
  #bytesMax: number;

  constructor(options: BacklogOptions) {
    this.#options = options;
    this.#bytesMax = options.replayBytesMax;
  }

  /** Changed bytes that are not on disk. */
  get bytes(): number {
    const { groups, commits } = this.#options;
    return groups.reduce((sum, { state }) => sum + changedBytes(state), commits.writingBytes);
  }

  get status(): Pick<ShardStatus, 'isSlow' | 'changedBytes'> {
    return { isSlow: this.isFull, changedBytes: this.bytes };
  }

  /** By how much it may grow; nothing may be applied unless it is positive. */
  get room(): number {
    return planted('changes-unbounded') ? Infinity : this.#bytesMax - this.bytes;
  }

  /** It is time to write whatever has changed. */
  get isHigh(): boolean {
    return this.room < (1 - HURRY_PART) * this.#bytesMax;
  }

  /** Committed entries wait to be applied. */
  get isHolding(): boolean {
    return this.#options.groups.some(({ raft }) => raft.appliedIndex < raft.commitIndex);
  }

  /** Once a turn. */
  look(): void {
    const { changedBytesMax, isReplaying } = this.#options;
    if (this.#bytesMax !== changedBytesMax && !isReplaying()) this.#bytesMax = changedBytesMax;
    this.isFull = this.room <= 0 && this.#waitingBytes > this.#bytesMax * WAITING_PART;
  }

  get #waitingBytes(): number {
    const { groups, storage } = this.#options;
    return groups.reduce((sum, { id, state }) => sum + storage.logBytesBehind(id, state.appliedIndex), 0);
  }
}
