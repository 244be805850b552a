/** The part of the configuration that shard threads of a cluster get. */
import type { Address } from '../base/address.ts';
import type { Config } from '../config/config.ts';
import type { Peer } from '../config/kinds.ts';
import type { ClusterTls } from '../config/tls.ts';

/** How a shard finds the other nodes. */
export interface ClusterData {
  readonly name: string;
  readonly secret: string;
  /** Undefined: links are not encrypted. */
  readonly tls: ClusterTls | undefined;
  readonly listen: Address;
  readonly peers: readonly Peer[];
  /** A new data directory may vote immediately, because the cluster is new too. */
  readonly initMembership: boolean;
  /** Where clients reach this node; empty: unknown. */
  readonly publicUrl: string;
}

/** Undefined for a single node. */
export function clusterOf({ raft, cluster, server }: Config): ClusterData | undefined {
  if (raft.peers.length < 2 || server.clusterListen === undefined) return undefined;
  return {
    name: cluster.name,
    secret: cluster.secret ?? '',
    tls: cluster.tls,
    listen: server.clusterListen,
    peers: raft.peers,
    initMembership: raft.initMembership,
    publicUrl: server.publicUrl ?? '',
  };
}
