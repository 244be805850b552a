/**
 * A shard's knowledge of its cluster and of directories: reported to the main thread, which has the file, and received
 * from there.
 */
import type { MessagePort } from 'node:worker_threads';
import { ConfigError } from '../src/config/error.ts';
import type { Finding } from '../src/server/node-identity.ts';
import type { ShardData } from '../src/server/shards.ts';
import { ClusterIdentity } from '../src/shard/cluster-identity.ts';
import { Directories } from '../src/shard/directories.ts';
import { whyNotFormed } from '../src/shard/members.ts';
import type { Shard } from '../src/shard/shard.ts';
import type { ShardStore } from '../src/store/shard-store.ts';

export function openIdentity({ nodeId, membership }: ShardData, port: MessagePort): ClusterIdentity {
  return new ClusterIdentity({
    nodeId,
    known: membership.clusterId,
    drawn: membership.drawnId,
    learned: (learned, source) => port.postMessage({ found: { learned, source } satisfies Finding }),
  });
}

export function openDirectories(
  { membership, boot }: ShardData,
  port: MessagePort,
  storage: ShardStore,
  identity: ClusterIdentity,
  declareLost: () => void,
): Directories {
  const { directoryId: directory, incarnation, migrated, settled } = membership;
  return new Directories({
    own: { directory, incarnation, boot, isNew: !migrated, settled },
    storage,
    identity,
    lost: (node, lost) => {
      declareLost();
      port.postMessage({ found: { lost, node } satisfies Finding });
    },
  });
}

export function heard(finding: Finding, identity: ClusterIdentity, directories: Directories, shard: Shard): void {
  if ('learned' in finding) return identity.settle(finding.learned);
  directories.settle(finding.lost);
  return shard.declareLost();
}

export function checkFormation({ nodeId, cluster, membership, directory }: ShardData, { groups }: Shard): void {
  const why = whyNotFormed(groups, nodeId, {
    isCluster: cluster !== undefined,
    single: membership.single,
    initMembership: cluster?.initMembership === true,
  });
  if (why !== undefined) throw new ConfigError(`${directory}: ${why}`);
}
