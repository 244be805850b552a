/** Ties a shard to the links of src/peer: what arrives goes to the shard, which handles it in its next turn. */
import type { Runtime } from '../src/base/runtime.ts';
import type { ColdPort } from '../src/cold/ports.ts';
import { ConfigError } from '../src/config/error.ts';
import type { PeerIdentity } from '../src/peer/codec/handshake.ts';
import type { SessionCount } from '../src/peer/listener.ts';
import { Peers } from '../src/peer/peers.ts';
import type { Logger } from '../src/logging/logger.ts';
import type { ClusterData } from '../src/server/cluster-data.ts';
import type { Introduced, ShardData } from '../src/server/shards.ts';
import type { Directories } from '../src/shard/directories.ts';
import { openInbox } from '../src/shard/inbox.ts';
import type { Shard } from '../src/shard/shard.ts';
import { describeShed } from '../src/placement/state/shed.ts';
import { caughtMessage } from '../src/base/caught.ts';

export interface PeerParts {
  readonly data: ShardData;
  readonly cluster: ClusterData;
  /** Built with its links; they call it once they are started. */
  readonly shard: () => Shard;
  readonly directories: Directories;
  /** Asks for a turn soon. */
  readonly wake: () => void;
  readonly log: Logger;
  readonly runtime: Runtime;
  readonly cold: ColdPort;
  /** A node has said where clients reach it. */
  readonly introduced: (peer: Introduced) => void;
  readonly onSessions: (sessions: SessionCount) => void;
}

export function openPeers({ data, cluster, shard, directories, introduced, ...parts }: PeerParts): Peers {
  const { wake, log, cold, runtime, onSessions } = parts;
  const meet = ({ node, publicUrl = '' }: PeerIdentity): void => introduced({ node, publicUrl });
  return new Peers({
    self: {
      clusterId: cluster.name,
      groupCount: data.groupCount,
      node: data.nodeId,
      shard: data.shard,
      shardCount: data.shardCount,
      boot: data.boot,
      publicUrl: cluster.publicUrl,
    },
    standing: (node) => directories.standing(node),
    secret: cluster.secret,
    tls: cluster.tls,
    listen: cluster.listen,
    peers: cluster.peers.map(({ nodeId, address }) => ({ node: nodeId, address })),
    log: (level, message, fields) => log[level](fields ?? {}, message),
    shed: () => JSON.stringify(describeShed(shard().shedBits)),
    coldProbe:
      data.cold === undefined
        ? undefined
        : () => new Promise((resolve) => cold.ask({ op: 'probe' }, ({ ok }) => resolve(ok))),
    runtime,
    onSessions,
    handler: {
      ...openInbox({ shard, wake, runtime }),
      onHello: (peer) => {
        meet(peer);
        return directories.onHello(peer);
      },
      onWelcome: (peer) => {
        meet(peer);
        return directories.onWelcome(peer);
      },
    },
  });
}

/** Listens for the other nodes, and links to them. */
export async function startPeers(peers: Peers, cluster: ClusterData, shard: number): Promise<void> {
  try {
    await peers.start();
  } catch (error) {
    const { host, port } = cluster.listen;
    const address = `${host}:${port === 0 ? 0 : port + shard}`;
    throw new ConfigError(
      `server.cluster_listen: shard ${shard} cannot listen on ${address} (${caughtMessage(error)})`,
    );
  }
}
