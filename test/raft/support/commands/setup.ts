import { ENTRY_DATA } from '../../../../src/raft/types.ts';
import { emptyDisk } from '../node.ts';
import type { Command } from '../scenario.ts';
import type { ScenarioCluster } from '../scenario-cluster.ts';

export function ids(list: string | undefined): number[] {
  return (list ?? '')
    .split(',')
    .filter((word) => word !== '')
    .map(Number);
}

/** cluster nodes=3 [voters=1,2] [learners=3] [message-bytes=N] [inflight-bytes=N] */
export function cluster(stage: ScenarioCluster, command: Command): void {
  const count = Number(command.options.get('nodes'));
  const all = Array.from({ length: count }, (_, at) => at + 1);
  const learners = ids(command.options.get('learners'));
  const voters = command.options.has('voters')
    ? ids(command.options.get('voters'))
    : all.filter((id) => !learners.includes(id));
  stage.configuration = { voters, votersOutgoing: [], learners };
  stage.options = {
    ...stage.options,
    maxMessageBytes: Number(command.options.get('message-bytes') ?? stage.options.maxMessageBytes),
    maxInflightBytes: Number(command.options.get('inflight-bytes') ?? stage.options.maxInflightBytes),
  };
  for (const id of all) {
    stage.addDisk(id);
    stage.start(id);
  }
}

/** node 2 log=1,1,4 [term=5] [vote=1] [commit=2]: starts a node from a disk that holds entries of these terms. */
export function node(stage: ScenarioCluster, command: Command): void {
  const id = Number(command.words[0]);
  const terms = ids(command.options.get('log'));
  const disk = emptyDisk(stage.configuration);
  disk.log.write(
    terms.map((term, at) => ({ term, index: at + 1, kind: ENTRY_DATA, data: new TextEncoder().encode(`t${term}`) })),
  );
  disk.hardState = {
    term: Number(command.options.get('term') ?? terms[terms.length - 1] ?? 0),
    vote: Number(command.options.get('vote') ?? 0),
    commit: Number(command.options.get('commit') ?? 0),
  };
  stage.disks.set(id, disk);
  stage.start(id);
}

/** crash 2: memory is gone, and a write that was not done. */
export function crash(stage: ScenarioCluster, command: Command): void {
  for (const word of command.words) stage.up.delete(stage.node(word).id);
}

/** restart 2 */
export function restart(stage: ScenarioCluster, command: Command): void {
  for (const word of command.words) stage.start(Number(word));
}

/** wipe 2: comes back under its old id with an empty disk; its host knows that and says so. */
export function wipe(stage: ScenarioCluster, command: Command): void {
  const id = Number(command.words[0]);
  stage.disks.set(id, { ...emptyDisk(stage.configuration), mayVote: false });
  stage.start(id);
}

/** lose 3 1: restarts from a disk that silently lost all entries behind 1, and the applied state. */
export function lose(stage: ScenarioCluster, command: Command): void {
  const id = Number(command.words[0]);
  const old = stage.disks.get(id)!;
  const disk = emptyDisk(stage.configuration);
  disk.log.write(old.log.stored.slice(0, Number(command.words[1])));
  disk.hardState = { ...old.hardState, commit: 0 };
  stage.disks.set(id, disk);
  stage.start(id);
}
