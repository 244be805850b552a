/**
 * A shard's knowledge of its cluster and of directories: reported to the main thread, which has the file, and received
 * from there.
 */
import type { MessagePort } from 'node:worker_threads';
import { ConfigError } from '../src/config/error.ts';
import type { IdentityFinding, MembershipData } from '../src/server/node-identity.ts';
import type { BeforeBegin, ShardData, ShardMessage } from '../src/server/shards.ts';
import { ClusterIdentity } from '../src/shard/cluster-identity.ts';
import { Directories } from '../src/shard/directories.ts';
import { whyNotFormed } from '../src/shard/members.ts';
import type { Shard } from '../src/shard/shard.ts';
import { StorageFullError } from '../src/shard/ports.ts';
import type { ShardRun } from '../src/store/rows.ts';
import type { ShardStore } from '../src/store/shard-store.ts';

export interface MemberData extends ShardData {
  readonly membership: MembershipData;
}

/**
 * The store says in which run it was last used, and notes this one; the shard does nothing before it is told to begin.
 * Undefined: the node does not start.
 */
export async function beginRun(port: MessagePort, storage: ShardStore): Promise<MembershipData | undefined> {
  const say = (message: ShardMessage): void => port.postMessage(message);
  return await new Promise((resolve) => {
    const onMessage = (message: BeforeBegin): void => {
      if (typeof message === 'object' && 'note' in message) return say({ noted: note(storage, message.note) });
      port.off('message', onMessage);
      return resolve(message === 'stop' ? undefined : message.begin);
    };
    port.on('message', onMessage);
    say({ opened: storage.lastRun });
  });
}

/** False: no room. A full disk must not keep a node from serving what it has. */
function note(storage: ShardStore, run: ShardRun): boolean {
  try {
    storage.noteRun(run);
    return true;
  } catch (error) {
    if (error instanceof StorageFullError) return false;
    throw error;
  }
}

export function openIdentity({ nodeId, membership }: MemberData, port: MessagePort): ClusterIdentity {
  return new ClusterIdentity({
    nodeId,
    known: membership.clusterId,
    drawn: membership.drawnId,
    learned: (learned, source) => port.postMessage({ found: { learned, source } satisfies IdentityFinding }),
  });
}

export function openDirectories(
  { membership, boot }: MemberData,
  port: MessagePort,
  storage: ShardStore,
  identity: ClusterIdentity,
  shard: () => Shard,
): Directories {
  const { directoryId: directory, incarnation, migrated, settled } = membership;
  return new Directories({
    own: { directory, incarnation, boot, isNew: !migrated, settled },
    storage,
    identity,
    lost: (node, lost, earlier) => {
      shard().declareLost();
      port.postMessage({ found: { lost, node, earlier } satisfies IdentityFinding });
    },
    settled: (settled) => port.postMessage({ found: { settled } satisfies IdentityFinding }),
    lossesAreStored: () => shard().lost.areStored,
    isStuck: () => shard().isStuck(),
  });
}

interface Hearing {
  readonly identity: ClusterIdentity;
  readonly directories: Directories;
  readonly shard: Shard;
  readonly port: MessagePort;
}

export function heard(finding: IdentityFinding, { identity, directories, shard, port }: Hearing): void {
  if ('learned' in finding) return identity.settle(finding.learned);
  if ('settled' in finding) return directories.settleEarlier(finding.settled);
  const stored = [...finding.earlier, finding.lost];
  directories.settleLater(stored);
  return shard.declareLost(() => port.postMessage({ stored } satisfies ShardMessage));
}

export function checkFormation({ nodeId, cluster, membership, directory }: MemberData, { groups }: Shard): void {
  const why = whyNotFormed(groups, nodeId, {
    isCluster: cluster !== undefined,
    single: membership.single,
    initMembership: cluster?.initMembership === true,
  });
  if (why !== undefined) throw new ConfigError(`${directory}: ${why}`);
}
