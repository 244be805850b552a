import { assert } from '../../../src/base/assert.ts';
import type { Configuration, Message, Ready } from '../../../src/raft/types.ts';
import { Checker } from './checker.ts';
import { formatEntry, formatHardState, formatMessage } from './format.ts';
import { SMALL_OPTIONS, TestNode, emptyDisk } from './node.ts';
import type { Disk, NodeOptions, Payloads } from './node.ts';

/** The stage of a scenario: nodes, their disks, and a network that moves only when told. */
export class ScenarioCluster {
  readonly checker = new Checker();
  readonly disks = new Map<number, Disk>();
  readonly up = new Map<number, TestNode>();
  network: Message[] = [];
  readonly held: Message[] = [];
  /** Nodes whose disk writes end only on `finish`. */
  readonly slow = new Set<number>();
  snapshots: 'deliver' | 'hold' | 'fail' = 'deliver';
  readonly cut = new Set<number>();
  options: NodeOptions = SMALL_OPTIONS;
  configuration: Configuration = { voters: [], votersOutgoing: [], learners: [] };
  readonly #payloads: Payloads = new Map();
  #boots = 0;
  /** The events since the last `report`. */
  #lines: string[] = [];

  node(word: string | undefined): TestNode {
    const node = this.up.get(Number(word));
    assert(node !== undefined, `no node ${word} is up`);
    return node;
  }

  addDisk(id: number): void {
    this.disks.set(id, emptyDisk(this.configuration));
  }

  start(id: number): TestNode {
    this.#boots += 1;
    const disk = this.disks.get(id);
    assert(disk !== undefined, `no disk ${id}`);
    const node = new TestNode(id, disk, this.options, 100 * id + this.#boots, this.#payloads);
    node.onReady = (ready) => this.#narrate(node, ready);
    this.up.set(id, node);
    return node;
  }

  say(line: string): void {
    this.#lines.push(line);
  }

  report(): string[] {
    this.checker.observe([...this.up.values()]);
    this.checker.logMatching([...this.up.values()]);
    const lines = this.#lines;
    this.#lines = [];
    return lines;
  }

  begin(node: TestNode): void {
    const before = node.reads.length;
    this.#post(`n${node.id} sends`, node.begin());
    for (const read of node.reads.slice(before)) {
      this.checker.readAnswered(read);
      this.say(`n${node.id} read ${read.context}${read.index === 0 ? ' refused' : `@${read.index}`}`);
    }
  }

  finish(node: TestNode): void {
    if (!node.isWriting) return;
    const messages = node.finish();
    this.say(`n${node.id} disk done`);
    this.#post(`n${node.id} then sends`, messages);
  }

  turn(node: TestNode): void {
    for (let left = 20; node.raft.hasReady() && left > 0; left -= 1) {
      this.begin(node);
      if (!this.slow.has(node.id)) this.finish(node);
    }
  }

  deliver(message: Message): void {
    const reachable =
      this.up.has(message.to) &&
      this.cut.has(message.from) === this.cut.has(message.to) &&
      (message.type !== 'snapshot' || this.snapshots !== 'fail');
    if (message.type === 'snapshot' && this.snapshots === 'hold') this.held.push(message);
    else if (reachable) this.node(String(message.to)).raft.step(message);
    else if (message.type === 'snapshot') this.up.get(message.from)?.raft.snapshotFailed(message.to);
  }

  /** Turns and deliveries until nothing moves. */
  stabilize(): void {
    for (let left = 200; left > 0; left -= 1) {
      for (const node of this.up.values()) this.turn(node);
      const messages = this.network;
      this.network = [];
      if (messages.length === 0) return;
      for (const message of messages) this.deliver(message);
    }
    assert(false, 'the network does not come to rest');
  }

  #post(intro: string, messages: readonly Message[]): void {
    for (const message of messages) this.say(`${intro} ${formatMessage(message)}`);
    this.network.push(...messages);
  }

  #narrate(node: TestNode, ready: Ready): void {
    if (ready.snapshot !== undefined)
      this.say(`n${node.id} installs snapshot ${ready.snapshot.index}/${ready.snapshot.term}`);
    if (ready.mustPersist) {
      const state = ready.hardState === undefined ? '' : ` ${formatHardState(ready.hardState)}`;
      const entries = ready.entries.length === 0 ? '' : ` [${ready.entries.map(formatEntry).join(' ')}]`;
      this.say(`n${node.id} writes${state}${entries}`);
    }
    if (ready.committed.length > 0) this.say(`n${node.id} applies ${ready.committed.map(formatEntry).join(' ')}`);
  }
}
