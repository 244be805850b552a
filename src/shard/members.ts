/** What a shard does about the membership of its groups besides operators' calls. */
import type { Group } from '../group/group.ts';

/** Its voters are still those that the host believes in. */
export function isUnrecorded({ raft, state }: Group): boolean {
  return state.configuration.length === 0 && raft.configurationIndex <= state.appliedIndex;
}

/**
 * The first configuration goes into the log, so that it is part of the state: otherwise a node that is started with
 * another raft.peers would believe in other voters than the rest of its group.
 */
export function recordConfiguration(group: Group, identity: string | undefined): void {
  if (!group.leads || !isUnrecorded(group)) return;
  group.raft.proposeConfiguration({ ...group.raft.configuration, identity });
}

/**
 * Why a directory cannot be started as it is configured, or undefined. What a single node wrote, the other nodes of a new cluster do
 * not have: they would put other bytes at the same offsets.
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
  /** The directory was made by a node without peers; undefined: by a version that did not note it. */
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
 * The nodes that joined by an operator's call, with the address that came with it: what the configurations in force of the
 * shard's groups have, committed or not, because a leader needs it to commit. Looked at once a tick.
 */
export class JoinedNodes {
  readonly #tell: (addresses: ReadonlyMap<number, string>) => void;
  #known: ReadonlyMap<number, string> = new Map();

  /** `tell` hears of every change. */
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
