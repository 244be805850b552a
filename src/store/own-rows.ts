/**
 * The shard's own rows about its groups and about directories. One that the disk changed is told apart from one that
 * was never written, because that it is there says a part of what it said.
 */
import { planted } from '../base/planted.ts';
import { RowDamage } from '../base/row-damage.ts';
import { readText } from '../base/text.ts';
import type { Tx } from '../base/tx.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import type { RememberedRun } from '../peer/codec/standing.ts';
import type { LostLog } from '../raft/types.ts';
import type { DirectoryStorage, StoragePaths, StoredVote } from '../shard/ports.ts';
import {
  ALL_GROUPS,
  OWN_TAG,
  PEER_ROW,
  RUN_KEY,
  type ShardRun,
  VOTE_ROW,
  decodeRun,
  decodeSettled,
  encodeRun,
  encodeSettled,
  halfOf,
  lostOf,
  peerKey,
  peerSettledKey,
  systemKey,
} from './rows.ts';

/** Stands for a row that the disk changed. */
const CHANGED = new Uint8Array(0);
const NO_VOTE: StoredVote = { term: 0, vote: 0 };
/** Those without which a group cannot be opened as it was. */
const OF_A_GROUP: readonly number[] = [OWN_TAG.half, OWN_TAG.cut, OWN_TAG.lost];

export abstract class OwnRows implements DirectoryStorage {
  abstract readonly tx: Tx;
  abstract readonly paths: StoragePaths;

  /** One commit, on disk when it returns. */
  protected abstract commit(write: () => void): void;

  checkGroup(group: number): void {
    for (const tag of OF_A_GROUP) this.tx.get(systemKey(tag, group));
    const torn = systemKey(OWN_TAG.torn, group);
    if (ownRow(this.tx, torn) !== undefined && !planted('torn-group-opened'))
      throw new RowDamage(torn, 'it says that others of the group are missing, whose page could not be read');
  }

  vote(group: number): StoredVote {
    const row = ownRow(this.tx, systemKey(OWN_TAG.vote, group));
    return row === undefined || row === CHANGED ? NO_VOTE : VOTE_ROW.decode(row);
  }

  /** Inside a commit: the node does not know for whom it voted, nor what it acknowledged. */
  protected putLost(group: number): void {
    if (!planted('group-not-lost')) this.putFlag(systemKey(OWN_TAG.lost, group), this.lost(group) || 2);
    this.tx.put(systemKey(OWN_TAG.vote, group), VOTE_ROW.encode(this.vote(group)));
  }

  protected isVoteChanged(group: number): boolean {
    return ownRow(this.tx, systemKey(OWN_TAG.vote, group)) === CHANGED;
  }

  prefix(group: number): number {
    return halfOf(group, ownRow(this.tx, systemKey(OWN_TAG.half, group)));
  }

  lost(group: number): LostLog {
    return planted('lost-marker-forgotten') ? 0 : lostOf(ownRow(this.tx, systemKey(OWN_TAG.lost, group)));
  }

  setLost(groups: readonly number[], lost: LostLog): void {
    this.commit(() => groups.forEach((group) => this.putFlag(systemKey(OWN_TAG.lost, group), lost)));
  }

  peerRun(node: number): RememberedRun | undefined {
    const row = ownRow(this.tx, peerKey(node));
    // The next link to that node writes it again.
    if (row === undefined || row === CHANGED) return undefined;
    const directory = readText(row, PEER_ROW.size, row.length - PEER_ROW.size);
    const run = { directory, ...PEER_ROW.decode(row) };
    return decodeSettled(ownRow(this.tx, peerSettledKey(node)) ?? CHANGED, run);
  }

  rememberPeer(node: number, run: RememberedRun): void {
    const row = PEER_ROW.encode(run, encodeUtf8(run.directory));
    this.commit(() => {
      this.tx.put(peerKey(node), row);
      if (run.settled.length > 0) this.tx.put(peerSettledKey(node), encodeSettled(run));
      else this.tx.delete(peerSettledKey(node));
    });
  }

  /**
   * The run of the data directory that last used this store; undefined: no version that notes it did; torn: its page
   * could not be read, so no group is opened.
   */
  get lastRun(): ShardRun | 'torn' | undefined {
    const row = ownRow(this.tx, RUN_KEY);
    if (row !== undefined) return decodeRun(row, this.paths.state);
    return ownRow(this.tx, systemKey(OWN_TAG.torn, ALL_GROUPS)) === undefined ? undefined : 'torn';
  }

  noteRun(run: ShardRun): void {
    this.commit(() => {
      this.tx.put(RUN_KEY, encodeRun(run));
      this.putFlag(systemKey(OWN_TAG.torn, ALL_GROUPS), 0);
    });
  }

  get fresh(): boolean {
    return ownRow(this.tx, systemKey(OWN_TAG.used, 0)) === undefined;
  }

  markUsed(lost: readonly number[]): void {
    this.commit(() => {
      this.putFlag(systemKey(OWN_TAG.used, 0), 1);
      for (const group of lost) this.putFlag(systemKey(OWN_TAG.lost, group), 1);
    });
  }

  protected putFlag(key: Uint8Array, flag: number): void {
    if (flag !== 0) this.tx.put(key, new Uint8Array([flag]));
    else this.tx.delete(key);
  }
}

/** A row that the disk changed has no bytes. */
export function ownRow(tx: Tx, key: Uint8Array): Uint8Array | undefined {
  try {
    return tx.get(key);
  } catch (error) {
    if (error instanceof RowDamage) return CHANGED;
    throw error;
  }
}
