import { assert } from '../../../../src/base/assert.ts';
import type { Message } from '../../../../src/raft/types.ts';
import type { Command } from '../scenario.ts';
import type { ScenarioCluster } from '../scenario-cluster.ts';

/** tick 1 [10]: only that node's clock moves. */
export function tick(stage: ScenarioCluster, command: Command): void {
  const node = stage.node(command.words[0]);
  for (let left = Number(command.words[1] ?? 1); left > 0; left -= 1) node.raft.tick();
}

/** run 30: all clocks advance, with all messages delivered between ticks. */
export function run(stage: ScenarioCluster, command: Command): void {
  for (let left = Number(command.words[0]); left > 0; left -= 1) {
    for (const node of stage.up.values()) node.raft.tick();
    stage.stabilize();
  }
}

/** stabilize: turns and deliveries until nothing moves. */
export function stabilize(stage: ScenarioCluster): void {
  stage.stabilize();
}

/** turn 1 2: whole turns, disk included. */
export function turn(stage: ScenarioCluster, command: Command): void {
  for (const word of command.words) stage.turn(stage.node(word));
}

/** begin 1: takes work; the disk write stays under way until `finish 1`. */
export function begin(stage: ScenarioCluster, command: Command): void {
  stage.begin(stage.node(command.words[0]));
}

export function finish(stage: ScenarioCluster, command: Command): void {
  stage.finish(stage.node(command.words[0]));
}

/** deliver 1->2 [type] [count=1]; keep: deliver a copy. Without a count all that match. */
export function deliver(stage: ScenarioCluster, command: Command): void {
  const chosen = choose(stage, command);
  if (!command.words.includes('copy')) stage.network = stage.network.filter((message) => !chosen.includes(message));
  for (const message of chosen) stage.deliver(message);
}

/** drop 1->2 [type] [count=1] */
export function drop(stage: ScenarioCluster, command: Command): void {
  const chosen = choose(stage, command);
  stage.network = stage.network.filter((message) => !chosen.includes(message));
}

/** slow 1: its disk writes end only on `finish 1`. fast 1: as usual. */
export function slow(stage: ScenarioCluster, command: Command): void {
  stage.slow.add(Number(command.words[0]));
}

export function fast(stage: ScenarioCluster, command: Command): void {
  stage.slow.delete(Number(command.words[0]));
}

/** snapshots hold|fail|deliver: what happens to snapshots in flight. */
export function snapshots(stage: ScenarioCluster, command: Command): void {
  const mode = command.words[0];
  assert(mode === 'hold' || mode === 'fail' || mode === 'deliver', `snapshots ${mode}`);
  stage.snapshots = mode;
}

/** hold 2->1 type: takes messages aside; `release` puts them back into the network. */
export function hold(stage: ScenarioCluster, command: Command): void {
  const chosen = choose(stage, command);
  stage.held.push(...chosen);
  stage.network = stage.network.filter((message) => !chosen.includes(message));
}

export function release(stage: ScenarioCluster): void {
  stage.network.push(...stage.held.splice(0));
}

/** cut 3 4: these can reach each other, but no other node. */
export function cut(stage: ScenarioCluster, command: Command): void {
  for (const word of command.words) stage.cut.add(Number(word));
}

export function heal(stage: ScenarioCluster): void {
  stage.cut.clear();
}

function choose(stage: ScenarioCluster, command: Command): Message[] {
  const link = command.words.find((word) => word.includes('->'));
  assert(link !== undefined, 'which link?');
  const type = command.words.find((word) => word !== 'copy' && !word.includes('->'));
  const found = stage.network.filter(
    (message) => `${message.from}->${message.to}` === link && (type === undefined || message.type === type),
  );
  assert(found.length > 0, `nothing to deliver on ${link}`);
  return found.slice(0, Number(command.options.get('count') ?? found.length));
}
