/** The shards' findings about this node's cluster and data directory: for millrace.json, and for the other shards. */
import { randomBytes } from 'node:crypto';
import type { Lineage } from '../backup/ports.ts';
import {
  CLUSTER_ID_BYTES,
  type Layout,
  type NodeDirectory,
  noteClusterId,
  noteSettled,
  noteSource,
} from './data-dir.ts';
import type { Logger } from '../logging/logger.ts';
import type { IdentitySource } from '../shard/cluster-identity.ts';
import type { DirectoryRun, DirectoryStart } from '../peer/codec/standing.ts';

/** Startup data for every shard. */
export interface MembershipData extends NodeDirectory {
  /** The identity of the cluster, if this node decides it. */
  readonly drawnId: string;
}

/** A shard's finding. */
export type IdentityFinding =
  | { readonly learned: string; readonly source: IdentitySource }
  /** A node remembers a run that this directory has not seen. */
  | { readonly lost: DirectoryRun; readonly node: number; readonly earlier: readonly DirectoryStart[] }
  /** Losses of this node before those that it knew of. */
  | { readonly settled: readonly DirectoryStart[] };

export class NodeMembership {
  readonly data: MembershipData;
  /** Another shard's finding. */
  tell: (finding: IdentityFinding) => void = () => undefined;
  readonly #path: string;
  readonly #log: Logger;
  readonly #fail: (error: Error) => void;
  #clusterId: string;
  /** Reported by a peer in this run; no majority yet. */
  #isHeard = false;
  #restoredFrom: readonly string[];
  readonly #shardCount: number;
  /** Shards that have a loss on disk, by its runs, until all have. */
  readonly #storedBy = new Map<string, Set<number>>();

  constructor(path: string, directory: NodeDirectory & Layout, log: Logger, fail: (error: Error) => void) {
    this.#path = path;
    this.#log = log;
    this.#fail = fail;
    this.#clusterId = directory.clusterId;
    this.#restoredFrom = directory.restoredFrom;
    this.#shardCount = directory.shardCount;
    this.data = { ...directory, drawnId: randomBytes(CLUSTER_ID_BYTES).toString('hex') };
  }

  /** Identity of the cluster; null: not known yet. */
  get clusterId(): string | null {
    return this.#clusterId === '' ? null : this.#clusterId;
  }

  /** For backups: this cluster, and those it was restored from, as far as this node took part. */
  get lineage(): Lineage {
    return { cluster_id: this.clusterId, restored_from: this.#restoredFrom };
  }

  /** A backup of that cluster was imported. */
  restored(clusterId: string): void {
    if (this.#restoredFrom.includes(clusterId)) return;
    this.#restoredFrom = [...this.#restoredFrom, clusterId];
    this.#try(() => noteSource(this.#path, clusterId));
  }

  found(finding: IdentityFinding): void {
    if ('learned' in finding) return this.#learned(finding.learned, finding.source);
    if ('lost' in finding) this.#lost(finding);
    else this.#try(() => noteSettled(this.#path, { earlier: finding.settled }));
    this.tell(finding);
  }

  /** The shard lost these runs, and will not vote after a start either. Such a start looks for none that is noted. */
  stored(shard: number, runs: readonly DirectoryStart[]): void {
    const key = JSON.stringify(runs);
    const shards = this.#storedBy.get(key) ?? new Set<number>();
    this.#storedBy.set(key, shards.add(shard));
    if (shards.size < this.#shardCount) return;
    this.#storedBy.delete(key);
    this.#try(() => noteSettled(this.#path, { later: runs }));
  }

  /** Shards may learn of two clusters at once: the first one counts, and a majority overrides a peer's report. */
  #learned(clusterId: string, source: IdentitySource): void {
    const known = this.#clusterId;
    if (clusterId === known) {
      if (source === 'decided') this.#isHeard = false;
      return;
    }
    if (known !== '') {
      this.#log.error(
        { cluster_id: known, other_cluster_id: clusterId },
        'peers are of two clusters: give each its own cluster.name and cluster.secret, or correct the addresses in cluster.peers',
      );
    }
    if (known !== '' && source === 'heard') return this.tell({ learned: known, source });
    if (!this.#try(() => noteClusterId(this.#path, clusterId, this.#isHeard ? known : ''))) {
      const told = `of cluster ${known}, the configuration that its groups agreed on of ${clusterId}`;
      return this.#fail(new Error(`the data directory ${this.#path} is ${told}; restore the right millrace.json`));
    }
    this.#clusterId = clusterId;
    this.#isHeard = source === 'heard';
    this.#log.info({ cluster_id: clusterId }, 'the data directory belongs to this cluster from now on');
    this.tell({ learned: clusterId, source });
  }

  #lost({ lost: run, node }: Extract<IdentityFinding, { readonly lost: unknown }>): void {
    const isOwn = run.directory === this.data.directoryId;
    this.#log.error(
      { node, remembers: run, directory: this.data.directoryId, start: this.data.incarnation },
      isOwn
        ? 'the data directory is an older copy of the one that a peer knows; this node votes again when a leader has refilled it: run allow-rejoin'
        : 'the data directory is not the one that a peer knows under this node id; this node votes when a leader has filled it: run allow-rejoin',
    );
  }

  /** A full disk is no reason to end: the shards know, and the next start finds it again. */
  #try(note: () => boolean): boolean {
    try {
      return note();
    } catch (error) {
      this.#log.warn({ err: error }, 'millrace.json could not be written');
      return true;
    }
  }
}
