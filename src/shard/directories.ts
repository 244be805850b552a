/**
 * Data directories of other nodes, as far as this shard has linked to them, and what the others remember of its own. A
 * node whose directory is not the one its peers knew (a new disk under an old name), or an older run of it (a restored
 * disk image), may have voted and acknowledged what it does not know. It lost its log, and learns so before any other
 * message.
 *
 * The content of a peer's welcome is stored: by then the peer has acted on what this node remembered. A hello alone
 * does not count.
 */
import { planted } from '../base/planted.ts';
import type { PeerIdentity } from '../peer/codec/handshake.ts';
import type { DirectoryRun, Standing } from '../peer/codec/standing.ts';
import type { ClusterIdentity } from './cluster-identity.ts';
import type { DirectoryStorage } from './ports.ts';

/** This node's own directory, in this run. */
export interface OwnDirectory extends DirectoryRun {
  /** Created by a version with directory ids: what a peer remembers of an earlier version is then another directory. */
  readonly isNew: boolean;
  /** Earlier directories of this node and their runs whose loss was noticed and is repaired or being repaired. */
  readonly settled: readonly DirectoryRun[];
}

export interface DirectoriesOptions {
  readonly own: OwnDirectory;
  readonly storage: DirectoryStorage;
  readonly identity: ClusterIdentity;
  /** The directory is not the one that `node` remembers: no vote until a leader restored it. Returns when on disk. */
  readonly lost: (node: number, remembered: DirectoryRun) => void;
}

export class Directories {
  readonly #options: DirectoriesOptions;
  readonly #settled: DirectoryRun[];

  constructor(options: DirectoriesOptions) {
    this.#options = options;
    this.#settled = [...options.own.settled];
  }

  /** This node's report to `node`. */
  standing(node: number): Standing {
    const { own, storage, identity } = this.#options;
    const { directory, incarnation } = own;
    return { identity: identity.known, directory, incarnation, remembers: storage.peerRun(node) };
  }

  onHello({ node, standing }: PeerIdentity): void {
    this.#options.identity.met(node, standing !== undefined);
    if (standing === undefined) return;
    this.#options.identity.hear(standing.identity);
    const { remembers } = standing;
    if (remembers === undefined || !this.#isLost(remembers)) return;
    this.#settled.push(remembers);
    this.#options.lost(node, remembers);
  }

  onWelcome(peer: PeerIdentity): void {
    this.onHello(peer);
    const { storage } = this.#options;
    const { node, standing, boot } = peer;
    const known = storage.peerRun(node);
    // A start that could not be recorded reports nothing, nor does the previous version: an older memory is better than
    // none.
    if (standing?.directory === '' || (standing === undefined && known !== undefined)) return;
    const { directory, incarnation } = standing ?? { directory: '', incarnation: 0 };
    const run = { directory, incarnation, boot: standing === undefined ? 0 : boot };
    if (planted('directories-not-remembered')) return;
    if (known === undefined || !isSame(known, run)) storage.rememberPeer(node, run);
  }

  /** Another shard detected the loss. */
  settle(run: DirectoryRun): void {
    this.#settled.push(run);
  }

  #isLost(remembered: DirectoryRun): boolean {
    if (planted('lost-marker-forgotten')) return false;
    const { own } = this.#options;
    if (
      this.#settled.some((run) => run.directory === remembered.directory && run.incarnation >= remembered.incarnation)
    )
      return false;
    // This start could not be recorded.
    if (own.directory === '') return false;
    if (remembered.directory === '') return own.isNew;
    if (remembered.directory !== own.directory) return true;
    if (remembered.incarnation === own.incarnation) return remembered.boot !== own.boot;
    return remembered.incarnation > own.incarnation;
  }
}

function isSame(a: DirectoryRun, b: DirectoryRun): boolean {
  return a.directory === b.directory && a.incarnation === b.incarnation && a.boot === b.boot;
}
