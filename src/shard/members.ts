/** A shard's automatic handling of its groups' membership, apart from operators' calls. */
import type { Group } from '../group/group.ts';
import { LEADER_WAIT_MS } from './forwarding.ts';
import type { Replication } from './replication.ts';

/** The group's configuration is still the host's, not yet in the log. */
export function isUnrecorded({ raft, state }: Group): boolean {
  return state.configuration.length === 0 && raft.configurationIndex <= state.appliedIndex;
}

/**
 * Puts the first configuration into the log, so that it is part of the state: otherwise a node started with another
 * raft.peers would use other voters than the rest of its group.
 */
function recordConfiguration(group: Group, identity: string | undefined): void {
  if (!group.leads || !isUnrecorded(group)) return;
  group.raft.proposeConfiguration({ ...group.raft.configuration, identity });
}

/** A part of ClusterIdentity. */
interface GroupIdentity {
  firstOf(group: Group): string | undefined;
  look(group: Group): void;
}

/**
 * A leader may hear from a follower and commit nothing all the same: what it would send is damaged, and the third node is
 * away. Proxies give a request a minute.
 */
const WAITS = { followerMs: LEADER_WAIT_MS, leaderMs: 30_000 };

/** Once a tick. */
export function tickGroups(groups: readonly Group[], replication: Replication, identity?: GroupIdentity): void {
  for (const group of groups) {
    group.raft.tick();
    group.expireWaiting(WAITS);
    if (replication.hasOthers || identity !== undefined) recordConfiguration(group, identity?.firstOf(group));
    identity?.look(group);
  }
  replication.tick(groups);
}

/**
 * Why a directory cannot be started as configured, or undefined. The other nodes of a new cluster lack what a single
 * node wrote, and would put other bytes at the same offsets.
 */
export function whyNotFormed(groups: readonly Group[], nodeId: number, formation: Formation): string | undefined {
  const { isCluster, single, initMembership } = formation;
  for (const group of groups) {
    const { voters, votersOutgoing } = group.raft.configuration;
    const unrecorded = isUnrecorded(group);
    const isAlone = voters.length === 1 && voters[0] === nodeId && votersOutgoing.length === 0;
    if (!isCluster) {
      const isForeign = unrecorded ? single === false && group.raft.lastIndex > 0 : !isAlone;
      if (isForeign) return MEMBER;
      continue;
    }
    const unclear = single === undefined && unrecorded && group.raft.lastIndex > 0;
    const isSingle = unclear || (single === true && isAlone);
    if (isSingle && initMembership) return SINGLE;
    if (unclear) return EARLIER;
  }
  return undefined;
}

/** How the node is started. */
export interface Formation {
  /** With peers. */
  readonly isCluster: boolean;
  /** Whether a node without peers created the directory; undefined: a version that did not record it. */
  readonly single: boolean | undefined;
  readonly initMembership: boolean;
}

const MEMBER =
  'the data directory is that of a member of a cluster, which cannot serve alone: name the nodes of the cluster in raft.peers';
const SINGLE =
  'raft.init_membership = true: the data directory was written by a single node, and the other nodes of a new cluster do not ' +
  'have what is in it. Set raft.init_membership = false on every node, start them, and add the others with millracectl add-member ' +
  '(src/operator/README.md, "From one node to three")';
const EARLIER =
  'raft.peers: the data directory was written by a single node of an earlier version. Start it once without raft.peers; then ' +
  'it can be grown into a cluster (src/operator/README.md, "From one node to three")';

/**
 * Nodes that joined by an operator's call, with the address given: those in the current configurations of the shard's
 * groups, committed or not, because a leader needs them to commit. Checked once a tick.
 */
export class JoinedNodes {
  readonly #tell: (addresses: ReadonlyMap<number, string>) => void;
  #known: ReadonlyMap<number, string> = new Map();

  /** `tell` is called with every change. */
  constructor(tell: (addresses: ReadonlyMap<number, string>) => void) {
    this.#tell = tell;
  }

  look(groups: readonly Group[]): void {
    const found = new Map<number, string>();
    for (const { raft } of groups) {
      const { addresses } = raft.configuration;
      if (addresses !== undefined) for (const [node, address] of addresses) found.set(node, address);
    }
    if (found.size === this.#known.size && [...found].every(([node, address]) => this.#known.get(node) === address))
      return;
    this.#known = found;
    this.#tell(found);
  }
}
