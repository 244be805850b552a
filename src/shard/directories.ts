/**
 * Data directories of other nodes, as far as this shard has linked to them, and what the others remember of its own. A
 * node whose directory is not the one its peers knew (a new disk under an old name), or an older run of it (a restored
 * disk image), may have voted and acknowledged what it does not know. It lost its log, and learns so before any other
 * message.
 *
 * The content of a peer's welcome is stored: by then the peer has acted on what this node remembered. A hello alone
 * does not count.
 *
 * A peer that was away may remember a directory that was lost before the last one. This one never heard of it, but the
 * last one had noticed that loss and told the peers that it linked to, and these tell of it with their memory.
 */
import { planted } from '../base/planted.ts';
import type { PeerIdentity } from '../peer/codec/handshake.ts';
import {
  type DirectoryRun,
  type DirectoryStart,
  type RememberedRun,
  type Standing,
  joinStarts,
} from '../peer/codec/standing.ts';
import type { ClusterIdentity } from './cluster-identity.ts';
import { type DirectoryStorage, StorageFullError } from './ports.ts';

/** This node's own directory, in this run. */
export interface OwnDirectory extends DirectoryRun {
  /** Created by a version with directory ids: what a peer remembers of an earlier version is then another directory. */
  readonly isNew: boolean;
  /** Earlier directories of this node and their runs whose loss was noticed and is repaired or being repaired. */
  readonly settled: readonly DirectoryStart[];
}

export interface DirectoriesOptions {
  readonly own: OwnDirectory;
  readonly storage: DirectoryStorage;
  readonly identity: ClusterIdentity;
  /**
   * The directory is not the one that `node` remembers: no vote until a leader restored it. Behind the losses known so
   * far come those before this one (`earlier`), then this one.
   */
  readonly lost: (node: number, remembered: DirectoryRun, earlier: readonly DirectoryStart[]) => void;
  /** Losses before those known so far: memories that are as old say no more. */
  readonly settled: (runs: readonly DirectoryStart[]) => void;
  /** The disk has every loss of this shard. */
  readonly lossesAreStored: () => boolean;
  /** A checkpoint hangs, for which a commit would wait. */
  readonly isStuck: () => boolean;
}

const RUN_NOT_STORED =
  'this node cannot note which run of the peer it met, because a checkpoint hangs or the disk is full';
const LOSS_NOT_STORED = 'this node lost its log, and its disk does not have that yet';

export class Directories {
  readonly #options: DirectoriesOptions;
  #settled: readonly DirectoryStart[];

  constructor(options: DirectoriesOptions) {
    this.#options = options;
    this.#settled = options.own.settled;
  }

  /** This node's report to `node`. */
  standing(node: number): Standing {
    const { own, storage, identity } = this.#options;
    const { directory, incarnation } = own;
    const remembers = storage.peerRun(node);
    return { identity: identity.known, directory, incarnation, settled: this.#settled, remembers };
  }

  /**
   * Why the peer is not welcomed yet: it would remember this run instead of the one that is lost, and the next start,
   * whose disk does not know of the loss, would never hear of it.
   */
  onHello(peer: PeerIdentity): string | undefined {
    this.#hear(peer);
    return this.#options.lossesAreStored() ? undefined : LOSS_NOT_STORED;
  }

  #hear({ node, standing }: PeerIdentity): void {
    this.#options.identity.met(node, standing !== undefined);
    if (standing === undefined) return;
    this.#options.identity.hear(standing.identity);
    const { remembers } = standing;
    if (remembers === undefined) return;
    const earlier = this.#earlierOf(remembers);
    if (this.#isLost(remembers)) {
      this.settleLater([...earlier, remembers]);
      this.#options.lost(node, remembers, earlier);
    } else if (earlier.length > 0) {
      this.settleEarlier(earlier);
      this.#options.settled(earlier);
    }
  }

  /** Why the link must wait: a peer may be told nothing before its run is on disk. */
  onWelcome(peer: PeerIdentity): string | undefined {
    this.#hear(peer);
    const { storage } = this.#options;
    const { node, standing, boot } = peer;
    const known = storage.peerRun(node);
    // A start that could not be recorded reports nothing, nor does the previous version: an older memory is better than
    // none.
    if (standing?.directory === '' || (standing === undefined && known !== undefined)) return undefined;
    const { directory, incarnation, settled } = standing ?? { directory: '', incarnation: 0, settled: [] };
    const run = { directory, incarnation, boot: standing === undefined ? 0 : boot, settled };
    if (planted('directories-not-remembered') || (known !== undefined && isSame(known, run))) return undefined;
    return this.#remember(node, run) ? undefined : RUN_NOT_STORED;
  }

  #remember(node: number, run: RememberedRun): boolean {
    const { storage, isStuck } = this.#options;
    if (isStuck()) return false;
    try {
      storage.rememberPeer(node, run);
      return true;
    } catch (error) {
      if (error instanceof StorageFullError) return false;
      throw error;
    }
  }

  /** Losses that lie behind those known so far. */
  settleLater(runs: readonly DirectoryStart[]): void {
    this.#settled = joinStarts(this.#settled, runs);
  }

  /** And before them. */
  settleEarlier(runs: readonly DirectoryStart[]): void {
    this.#settled = joinStarts(runs, this.#settled);
  }

  /** New losses that an earlier directory of this node had noticed. Those of this one are in its file. */
  #earlierOf({ directory, settled }: RememberedRun): readonly DirectoryStart[] {
    const own = this.#options.own.directory;
    if (directory === own) return [];
    return settled.filter((run) => run.directory !== own && !this.#isSettled(run));
  }

  #isSettled({ directory, incarnation }: DirectoryStart): boolean {
    return this.#settled.some((run) => run.directory === directory && run.incarnation >= incarnation);
  }

  #isLost(remembered: DirectoryRun): boolean {
    if (planted('lost-marker-forgotten') || this.#isSettled(remembered)) return false;
    const { own } = this.#options;
    // This start could not be recorded.
    if (own.directory === '') return false;
    if (remembered.directory === '') return own.isNew;
    if (remembered.directory !== own.directory) return true;
    if (remembered.incarnation === own.incarnation) return remembered.boot !== own.boot;
    return remembered.incarnation > own.incarnation;
  }
}

function isSame(a: RememberedRun, b: RememberedRun): boolean {
  return isSameStart(a, b) && a.boot === b.boot && areSame(a.settled, b.settled);
}

function areSame(a: readonly DirectoryStart[], b: readonly DirectoryStart[]): boolean {
  return a.length === b.length && a.every((run, i) => isSameStart(run, b[i]));
}

function isSameStart(a: DirectoryStart, b: DirectoryStart | undefined): boolean {
  return a.directory === b?.directory && a.incarnation === b.incarnation;
}
