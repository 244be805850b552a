/** What a shard does about the membership of its groups besides operators' calls. */
import type { Group } from '../group/group.ts';

/**
 * The first configuration goes into the log, so that it is part of the state: otherwise a node that is started with
 * another raft.peers would believe in other voters than the rest of its group.
 */
export function recordConfiguration({ raft, state, leads }: Group): void {
  if (!leads || state.configuration.length > 0 || raft.configurationIndex > state.appliedIndex) return;
  raft.proposeConfiguration(raft.configuration);
}

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
