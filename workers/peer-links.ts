/** Ties a shard to the links of src/peer: what arrives goes to the shard, which handles it in its next turn. */
import { ConfigError } from '../src/config/error.ts';
import type { Parker } from '../src/mailbox/wake.ts';
import { Peers } from '../src/peer/peers.ts';
import type { Logger } from '../src/logging/logger.ts';
import type { ClusterData, ShardData } from '../src/server/shards.ts';
import type { Directories } from '../src/shard/directories.ts';
import type { Shard } from '../src/shard/shard.ts';
import { describeShed } from '../src/placement/state/shed.ts';
import type { StoreProbes } from './cold-port.ts';

export interface PeerParts {
  readonly data: ShardData;
  readonly cluster: ClusterData;
  readonly shard: Shard;
  readonly directories: Directories;
  readonly parker: Parker;
  readonly log: Logger;
  readonly probes: StoreProbes;
}

export async function openPeers({ data, cluster, shard, directories, parker, log, probes }: PeerParts): Promise<Peers> {
  const wake = (): void => parker.unpark();
  const peers: Peers = new Peers({
    self: {
      clusterId: cluster.name,
      groupCount: data.groupCount,
      node: data.nodeId,
      shard: data.shard,
      shardCount: data.shardCount,
      boot: data.boot,
    },
    standing: (node) => directories.standing(node),
    secret: cluster.secret,
    listen: cluster.listen,
    peers: cluster.peers.map(({ nodeId, address }) => ({ node: nodeId, address })),
    log: (level, message, fields) => log[level](fields ?? {}, message),
    shed: () => JSON.stringify(describeShed(shard.shedBits)),
    coldProbe: data.cold === undefined ? undefined : () => probes.ask(),
    handler: {
      onRaft: (group, message) => {
        shard.onRaft(group, message);
        wake();
      },
      onForward: (origin, group, bytes) => {
        shard.onForward(origin, group, bytes, Date.now());
        wake();
      },
      onHello: (peer) => directories.onHello(peer),
      onWelcome: (peer) => directories.onWelcome(peer),
      onLinkUp: wake,
      onLinkDown: wake,
      onSnapshotBegin: (snapshot, message, metadata) => shard.snapshots?.begin(snapshot, message, metadata),
      onSnapshotChunk: (snapshot, rows) => shard.snapshots?.chunk(snapshot, rows),
      onSnapshotComplete: (snapshot) => {
        const group = shard.group(snapshot.group);
        if (group !== undefined) shard.snapshots?.complete(snapshot, group);
        wake();
      },
      onSnapshotAborted: (snapshot) => shard.snapshots?.aborted(snapshot),
    },
  });
  shard.attachPeers(peers, wake);
  try {
    await peers.start();
  } catch (error) {
    const { host, port } = cluster.listen;
    const address = `${host}:${port === 0 ? 0 : port + data.shard}`;
    throw new ConfigError(
      `server.cluster_listen: shard ${data.shard} cannot listen on ${address} (${(error as Error).message})`,
    );
  }
  return peers;
}
