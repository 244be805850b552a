import { formatConfiguration, formatMessage } from '../format.ts';
import type { ScenarioCluster } from '../scenario-cluster.ts';

/** status: one line per node that is up. */
export function status(stage: ScenarioCluster): void {
  for (const { id, raft } of stage.up.values()) {
    const may = raft.mayVote ? '' : ' may-not-vote';
    stage.say(
      `n${id} ${raft.role} term=${raft.term} leader=${raft.leader} commit=${raft.commitIndex} last=${raft.lastIndex}` +
        ` ${formatConfiguration(raft.configuration)}${may}`,
    );
  }
}

/** logs: the terms of each log. */
export function logs(stage: ScenarioCluster): void {
  for (const node of stage.up.values()) stage.say(`n${node.id} ${node.logTerms().join(' ')}`);
}

/** peers 1: the leader's view of the others. */
export function peers(stage: ScenarioCluster, command: { words: readonly string[] }): void {
  for (const peer of stage.node(command.words[0]).raft.peers()) {
    const recovery = peer.recovery === 'none' ? '' : ` recovery=${peer.recovery}`;
    stage.say(`n${peer.node} ${peer.state} match=${peer.match} next=${peer.next}${recovery}`);
  }
}

/** network: what is under way. */
export function network(stage: ScenarioCluster): void {
  for (const message of stage.network) stage.say(formatMessage(message));
}
