/** The part of the configuration that shard threads of a cluster get. */
import type { Config } from '../config/config.ts';

/** How a shard finds the other nodes. */
export type ClusterData = Readonly<NonNullable<ReturnType<typeof clusterOf>>>;

/** Undefined for a single node. */
export function clusterOf({ raft, cluster, server }: Config) {
  if (raft.peers.length < 2 || server.clusterListen === undefined) return undefined;
  return {
    name: cluster.name,
    secret: cluster.secret ?? '',
    /** Undefined: links are not encrypted. */
    tls: cluster.tls,
    listen: server.clusterListen,
    peers: raft.peers,
    /** A new data directory may vote immediately, because the cluster is new too. */
    initMembership: raft.initMembership,
    /** Where clients reach this node; empty: unknown. */
    publicUrl: server.publicUrl ?? '',
  };
}
