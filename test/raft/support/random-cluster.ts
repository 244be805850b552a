import { assert } from '../../../src/base/assert.ts';
import { isJoint } from '../../../src/raft/configuration.ts';
import { Random } from '../../../src/raft/random.ts';
import type { Configuration, Message } from '../../../src/raft/types.ts';
import { Checker } from './checker.ts';
import { SMALL_OPTIONS, TestNode, emptyDisk } from './node.ts';
import type { Disk, Payloads } from './node.ts';

/** Messages in the network; beyond that the oldest are lost, as a bounded send queue would do. */
const NETWORK_MAX = 400;

/**
 * A cluster whose every choice comes from one seed: which message arrives next (any: loss, duplication, reordering),
 * which clock ticks, which disk finishes, which node crashes, is cut off, compacts its log or loses its disk.
 */
export class RandomCluster {
  readonly random: Random;
  readonly checker = new Checker();
  readonly disks = new Map<number, Disk>();
  readonly up = new Map<number, TestNode>();
  readonly counts = {
    proposed: 0,
    crashes: 0,
    wipes: 0,
    restored: 0,
    changes: 0,
    transfers: 0,
    snapshots: 0,
    reads: 0,
    stops: 0,
    repairs: 0,
  };
  readonly #payloads: Payloads = new Map();
  #network: Message[] = [];
  #cut = new Set<number>();
  #size: number;
  #bootSeed = 1;
  #nextRead = 1;
  /** At most one node may have lost its log at a time: two of three would be a lost majority. */
  #wiped = 0;
  /** At most one node has a damaged state, and none while a disk is lost: two of three would be a lost majority. */
  #stopped: TestNode | undefined;
  readonly #lossPercent: number;
  readonly #events: (readonly [number, () => void])[];
  readonly #weightSum: number;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.#lossPercent = [0, 1, 5, 20][this.random.below(4)]!;
    this.#events = this.#drawEvents();
    this.#weightSum = this.#events.reduce((sum, [weight]) => sum + weight, 0);
    this.#size = 3 + this.random.below(3);
    const initial = 3 + this.random.below(this.#size - 2);
    const voters = [1, 2, 3, 4, 5].slice(0, initial);
    const configuration: Configuration = { voters, votersOutgoing: [], learners: [] };
    for (let id = 1; id <= this.#size; id += 1) {
      this.disks.set(id, emptyDisk(configuration));
      this.#start(id);
    }
  }

  get nodes(): TestNode[] {
    return [...this.up.values()];
  }

  leader(): TestNode | undefined {
    const leaders = this.nodes.filter((node) => node.raft.role === 'leader');
    return leaders.sort((a, b) => b.raft.term - a.raft.term)[0];
  }

  /** One random event of the safety phase. */
  chaos(): void {
    let dice = this.random.below(this.#weightSum);
    for (const [weight, event] of this.#events) {
      dice -= weight;
      if (dice >= 0) continue;
      event();
      break;
    }
    this.checker.observe(this.nodes);
  }

  /**
   * Weights are drawn per seed (each rare event is absent, usual or frequent), so that seeds differ in kind: a run with
   * crashes everywhere gets nowhere, and a run with a bit of everything never gets deep into one thing.
   */
  #drawEvents(): (readonly [number, () => void])[] {
    const rare = (usual: number): number => usual * [0, 1, 1, 4][this.random.below(4)]!;
    return [
      [2000 + this.random.below(3000), () => this.#deliver()],
      [300 + this.random.below(600), () => this.#tickOne()],
      [1500, () => this.#begin(this.#anyNode())],
      [500 + this.random.below(1500), () => this.#finish(this.#anyNode())],
      [100 + this.random.below(500), () => this.#propose()],
      [rare(4), () => this.#crash(this.#anyNode())],
      [20, () => this.#restartOne()],
      [rare(8), () => this.#partition()],
      [10, () => this.#cut.clear()],
      [rare(20), () => this.#maintain(this.#anyNode())],
      [rare(10), () => this.#changeMembership()],
      [rare(10), () => this.#transfer()],
      [rare(40), () => this.#read()],
      [rare(1), () => this.#wipe()],
      [rare(5), () => this.#stop(this.#anyNode())],
      [5, () => this.#permitReverts()],
      [2, () => this.checker.logMatching(this.nodes)],
    ];
  }

  /** Liveness phase: all nodes up, no faults; the group must settle, agree and accept writes. */
  settle(): void {
    this.#cut.clear();
    for (const id of this.disks.keys()) if (!this.up.has(id)) this.#start(id);
    const mark = Uint8Array.of(255, 255);
    let goal = 0;
    let goalTerm = 0;
    for (let round = 0; round < 3000; round += 1) {
      for (const node of this.nodes) node.raft.tick();
      this.#calmRound();
      this.checker.observe(this.nodes);
      const leader = this.leader();
      this.#permitReverts();
      if (leader === undefined) continue;
      // A proposal dies with its leader, so each new one gets its own.
      if (goal === 0 || goalTerm !== leader.raft.term) goal = leader.raft.propose(mark);
      goalTerm = leader.raft.term;
      if (goal !== 0 && this.#settled(leader, goal)) return;
    }
    assert(false, `not settled: ${this.describe()}`);
  }

  describe(): string {
    return this.nodes
      .map(
        ({ id, raft }) =>
          `n${id} ${raft.role} term=${raft.term} leader=${raft.leader} commit=${raft.commitIndex} last=${raft.lastIndex}` +
          ` mayVote=${raft.mayVote} ${JSON.stringify(raft.configuration)} ${JSON.stringify(raft.peers())}`,
      )
      .join('\n');
  }

  #settled(leader: TestNode, goal: number): boolean {
    if (isJoint(leader.raft.configuration)) return false;
    const { voters, learners } = leader.raft.configuration;
    return [...voters, ...learners].every((id) => {
      const node = this.up.get(id)!;
      return node.applied.length >= goal && node.raft.mayVote;
    });
  }

  #start(id: number): void {
    this.#bootSeed += 1;
    const node = new TestNode(
      id,
      this.disks.get(id)!,
      SMALL_OPTIONS,
      this.random.below(0x7fffffff) + this.#bootSeed,
      this.#payloads,
    );
    this.up.set(id, node);
  }

  #anyNode(): TestNode | undefined {
    const nodes = this.nodes;
    return nodes[this.random.below(Math.max(1, nodes.length))];
  }

  #tickOne(): void {
    this.#anyNode()?.raft.tick();
  }

  #post(messages: readonly Message[]): void {
    for (const message of messages) {
      if (this.#network.length >= NETWORK_MAX) this.#network.shift();
      this.#network.push(message);
    }
  }

  #begin(node: TestNode | undefined): void {
    if (node === undefined || !node.raft.hasReady()) return;
    const reads = node.reads.length;
    this.#post(node.begin());
    for (const read of node.reads.slice(reads)) this.checker.readAnswered(read);
  }

  #finish(node: TestNode | undefined): void {
    if (node !== undefined) this.#post(node.finish());
    this.#noticeRestored();
    this.#noticeRepaired();
  }

  #deliver(): void {
    const { length } = this.#network;
    if (length === 0) return;
    // Mostly in order, as TCP would; now and then any message, and now and then one is lost or arrives twice.
    const at = this.random.below(4) === 0 ? this.random.below(length) : 0;
    const message = this.#network[at]!;
    const fate = this.random.below(100);
    if (fate < 97) this.#network.splice(at, 1);
    if (fate < this.#lossPercent) {
      if (message.type === 'snapshot') this.up.get(message.from)?.raft.snapshotFailed(message.to);
      return;
    }
    this.#arrive(message);
  }

  #arrive(message: Message): void {
    const target = this.up.get(message.to);
    const reachable = target !== undefined && this.#cut.has(message.from) === this.#cut.has(message.to);
    if (reachable) target.raft.step(message);
    if (message.type === 'snapshot') {
      this.counts.snapshots += 1;
      // The sending host learns that the transfer is over; failing it late is harmless.
      this.up.get(message.from)?.raft.snapshotFailed(message.to);
    }
  }

  #propose(): void {
    const node = this.random.below(3) === 0 ? this.#anyNode() : this.leader();
    const size = this.random.below(40) === 0 ? 3000 : this.random.below(200);
    const data = new Uint8Array(size + 4);
    new DataView(data.buffer).setUint32(0, this.counts.proposed);
    if (node !== undefined && node.raft.propose(data) > 0) this.counts.proposed += 1;
  }

  #crash(node: TestNode | undefined): void {
    if (node === undefined) return;
    this.counts.crashes += 1;
    this.up.delete(node.id);
    for (const message of this.#network) {
      if (message.type === 'snapshot' && message.to === node.id)
        this.up.get(message.from)?.raft.snapshotFailed(node.id);
    }
    this.#network = this.#network.filter((message) => message.type !== 'snapshot' || message.to !== node.id);
  }

  #restartOne(): void {
    const down = [...this.disks.keys()].filter((id) => !this.up.has(id));
    const id = down[this.random.below(Math.max(1, down.length))];
    if (id !== undefined) this.#start(id);
  }

  #partition(): void {
    this.#cut.clear();
    for (const id of this.disks.keys()) if (this.random.below(2) === 0) this.#cut.add(id);
  }

  #maintain(node: TestNode | undefined): void {
    if (node === undefined || node.isWriting) return;
    node.checkpoint();
    const upTo = Math.min(node.disk.applied.length, node.raft.compactableIndex);
    if (upTo > node.disk.log.snapshotIndex)
      node.compact(upTo - this.random.below(Math.min(5, upTo - node.disk.log.snapshotIndex)));
  }

  #changeMembership(): void {
    const leader = this.leader();
    if (leader === undefined || this.#wiped !== 0) return;
    const ids = [...this.disks.keys()];
    const voters = ids.filter(() => this.random.below(3) > 0);
    if (voters.length < 2) return;
    const learners = ids.filter((id) => !voters.includes(id) && this.random.below(2) === 0);
    if (leader.raft.proposeConfiguration({ voters, learners }) > 0) this.counts.changes += 1;
  }

  #transfer(): void {
    const outcome = this.leader()?.raft.transferLeadership(1 + this.random.below(this.#size));
    if (outcome === 'started') this.counts.transfers += 1;
  }

  #read(): void {
    const node = this.#anyNode();
    if (node === undefined) return;
    const context = this.#nextRead;
    this.#nextRead += 1;
    this.checker.readStarted(context, this.nodes);
    if (node.raft.readIndex(context)) this.counts.reads += 1;
  }

  /** A node loses its disk and comes back under its old id. Its links die with it, as TCP connections do. */
  #wipe(): void {
    if (this.#wiped !== 0 || this.#stopped !== undefined || this.up.size < this.#size) return;
    // Membership at rest everywhere, and not so small that losing one disk is losing a majority.
    const { configuration } = this.nodes[0]!.raft;
    if (isJoint(configuration) || configuration.voters.length < 3) return;
    const agreed = JSON.stringify(configuration);
    if (this.nodes.some((node) => JSON.stringify(node.raft.configuration) !== agreed)) return;
    const id = 1 + this.random.below(this.#size);
    this.counts.wipes += 1;
    this.#wiped = id;
    this.#crash(this.up.get(id));
    this.#network = this.#network.filter((message) => message.from !== id && message.to !== id);
    this.disks.set(id, { ...emptyDisk(configuration), mayVote: false });
    this.#start(id);
  }

  /** The disk changes the applied state of a node. */
  #stop(node: TestNode | undefined): void {
    if (node === undefined || this.#stopped !== undefined || this.#wiped !== 0) return;
    this.counts.stops += 1;
    this.#stopped = node;
    node.stop();
  }

  #noticeRepaired(): void {
    const stopped = this.#stopped;
    if (stopped === undefined || (stopped.isStopped && this.up.get(stopped.id) === stopped)) return;
    this.#stopped = undefined;
    if (stopped.isStopped) return;
    this.counts.repairs += 1;
    stopped.raft.electionPriority = 'normal';
  }

  #permitReverts(): void {
    for (const node of this.nodes) {
      for (const peer of node.raft.peers()) if (peer.recovery === 'asking') node.raft.allowNextRevert(peer.node);
    }
  }

  #noticeRestored(): void {
    if (this.#wiped === 0 || !this.disks.get(this.#wiped)!.mayVote) return;
    this.#wiped = 0;
    this.counts.restored += 1;
  }

  #calmRound(): void {
    for (let turns = 0; turns < 4; turns += 1) {
      for (const node of this.nodes) {
        this.#begin(node);
        this.#finish(node);
      }
      const messages = this.#network;
      this.#network = [];
      for (const message of messages) this.#arrive(message);
    }
  }
}
