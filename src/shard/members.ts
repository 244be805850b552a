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
