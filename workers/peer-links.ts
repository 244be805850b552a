/** Ties a shard to the links of src/peer: what arrives goes to the shard, which handles it in its next turn. */
import { ConfigError } from '../src/config/error.ts';
import type { Parker } from '../src/mailbox/wake.ts';
import { Peers } from '../src/peer/peers.ts';
import type { Logger } from '../src/server/log.ts';
import type { ClusterData, ShardData } from '../src/server/shards.ts';
import type { Shard } from '../src/shard/shard.ts';
import { describeShed } from '../src/wire/shed.ts';
import type { StoreProbes } from './cold-port.ts';

export async function openPeers(
  data: ShardData,
  cluster: ClusterData,
  shard: Shard,
  parker: Parker,
  log: Logger,
  probes: StoreProbes,
): Promise<Peers> {
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
