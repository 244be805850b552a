import { ids } from './setup.ts';
import type { Command } from '../scenario.ts';
import type { ScenarioCluster } from '../scenario-cluster.ts';

export function campaign(stage: ScenarioCluster, command: Command): void {
  stage.node(command.words[0]).raft.campaign();
}

/** propose 1 text... */
export function propose(stage: ScenarioCluster, command: Command): void {
  for (const word of command.words.slice(1)) {
    const index = stage.node(command.words[0]).raft.propose(new TextEncoder().encode(word));
    stage.say(index === 0 ? `${word} refused` : `${word} is ${index}`);
  }
}

/** change 1 voters=1,2,4 [learners=3] */
export function change(stage: ScenarioCluster, command: Command): void {
  const voters = ids(command.options.get('voters'));
  const learners = ids(command.options.get('learners'));
  const index = stage.node(command.words[0]).raft.proposeConfiguration({ voters, learners });
  stage.say(index === 0 ? 'refused' : `change is ${index}`);
}

/** transfer 1 2 */
export function transfer(stage: ScenarioCluster, command: Command): void {
  stage.say(stage.node(command.words[0]).raft.transferLeadership(Number(command.words[1])));
}

/** refuse 2 3: these nodes must not lead (draining). */
export function refuse(stage: ScenarioCluster, command: Command): void {
  for (const word of command.words) stage.node(word).raft.electionPriority = 'none';
}

/** willing 2: may lead again. */
export function willing(stage: ScenarioCluster, command: Command): void {
  for (const word of command.words) stage.node(word).raft.electionPriority = 'normal';
}

/** late 2: had better not lead (its disk is full). */
export function late(stage: ScenarioCluster, command: Command): void {
  for (const word of command.words) stage.node(word).raft.electionPriority = 'low';
}

/** read 1 7: a linearizable read with context 7. */
export function read(stage: ScenarioCluster, command: Command): void {
  const context = Number(command.words[1]);
  stage.checker.readStarted(context, [...stage.up.values()]);
  if (!stage.node(command.words[0]).raft.readIndex(context)) stage.say('no leader to ask');
}

/** allow 1 3: node 3 may revert once. */
export function allow(stage: ScenarioCluster, command: Command): void {
  stage.say(stage.node(command.words[0]).raft.allowNextRevert(Number(command.words[1])) ? 'allowed' : 'refused');
}

/** compact 1 5: checkpoint, then compact the log up to 5. */
export function compact(stage: ScenarioCluster, command: Command): void {
  const node = stage.node(command.words[0]);
  node.checkpoint();
  node.compact(Number(command.words[1]));
}

/** snapshot-failed 1 3: the host could not ship it. */
export function snapshotFailed(stage: ScenarioCluster, command: Command): void {
  stage.node(command.words[0]).raft.snapshotFailed(Number(command.words[1]));
}
