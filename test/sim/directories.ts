/** A simulated node's and its peers' knowledge of each other's disks, as workers/membership.ts has it. */
import { ClusterIdentity } from '../../src/shard/cluster-identity.ts';
import { Directories } from '../../src/shard/directories.ts';
import { joinStarts } from '../../src/peer/codec/standing.ts';
import type { PeerIdentity } from '../../src/peer/codec/handshake.ts';
import type { Endpoint } from './network.ts';
import type { SimProcess } from './process.ts';

export function openDirectories(process: SimProcess, trace: (line: string) => void): Directories {
  const { id, boot, node } = process;
  const { disk } = node;
  return new Directories({
    own: { directory: `${id}/${node.disks}`, incarnation: node.boots, boot, isNew: true, settled: disk.settled },
    // Durable at once, and without draws: what is stored costs the runs nothing.
    storage: {
      peerRun: (peer) => disk.peerRuns.get(peer),
      rememberPeer: (peer, run) => void disk.peerRuns.set(peer, run),
    },
    identity: new ClusterIdentity({ nodeId: id, known: '', drawn: '', learned: () => undefined }),
    lost: (peer, run, earlier) => {
      trace(`n${id} hears of n${peer} that it lost its directory: ${JSON.stringify(run)}`);
      process.shard.declareLost(() => (disk.settled = joinStarts(disk.settled, [...earlier, run])));
      process.wake();
    },
    settled: (runs) => void (disk.settled = joinStarts(runs, disk.settled)),
    lossesAreStored: () => process.shard.lost.areStored,
    isStuck: () => false,
  });
}

/**
 * The handshake comes before all frames; the other end may be suspended, and gets its part when it resumes, or ends the
 * connection.
 */
export function shakeHands(from: SimProcess, to: Endpoint, end: () => void): void {
  from.directories.onHello(introductionOf(to, from.id));
  to.receive(() => {
    if (to.directories.onHello(introductionOf(from, to.id)) !== undefined) return end();
    if (!from.dead) from.guard(() => from.directories.onWelcome(introductionOf(to, from.id)));
  });
}

function introductionOf({ id, boot, directories }: Endpoint, node: number): PeerIdentity {
  const standing = directories.standing(node);
  return { clusterId: 'sim', groupCount: 0, node: id, shard: 0, shardCount: 1, boot, standing };
}
