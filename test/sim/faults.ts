/** Faults of the safety phase, each kind at its own rate; and the operator who looks after the cluster. */
import type { AdminRequest } from '../../src/protocol/queries/administration.ts';
import type { Group } from '../../src/group/group.ts';
import { type Random, createRandom } from '../support/random.ts';
import { FAULT_KINDS, type FaultKind } from './options.ts';
import type { SimNode } from './node.ts';
import { adminRequest } from './requests.ts';
import { rotRecord, rotUnused } from './rot.ts';
import type { World } from './world.ts';
import { QUERIES } from '../../src/protocol/operations.ts';

const OPERATOR_MS = 500;
/** The first leaders are elected and the streams created before anything goes wrong. */
const QUIET_MS = 2500;
/** Two voters that are left by a change cannot do without either disk: no disk is lost around a change. */
const MEMBERSHIP_DONE_MS = 6000;
const WIPE_RETRY_MS = 400;

export class Faults {
  readonly counts: Record<string, number> = {};
  readonly #world: World;
  readonly #random: Random;
  /** Draws rot, apart from all other draws. */
  readonly #rotRandom: Random;
  /** At most one lost disk at a time: two of three would be a lost majority. 0: none. */
  #wiped = 0;
  #membershipAtMs = -Infinity;

  constructor(world: World) {
    this.#world = world;
    this.#random = createRandom(world.options.seed * 13 + 5);
    this.#rotRandom = createRandom(world.options.seed ^ 0x0b17_f11b);
  }

  start(): void {
    this.#world.queue.after(QUIET_MS, () => {
      for (const kind of FAULT_KINDS) this.#later(kind);
      if (this.#world.options.rotMs < Infinity) this.#rotLater();
      const { rowRotMs, groupRotMs } = this.#world.options;
      if (rowRotMs !== undefined) this.#rotRowLater(rowRotMs);
      if (groupRotMs !== undefined) this.#rotGroupLater(groupRotMs);
    });
    this.#world.checks.onLeader = ({ node }) => this.#ambush(node);
    this.#operate();
  }

  /** A new leader dies, or is cut off, before or after its first messages have come to something. */
  #ambush(node: SimNode): void {
    const { ambush, network } = this.#world.options;
    const random = this.#random;
    if (!this.#world.faulty || this.#world.queue.nowMs < QUIET_MS || !random.chance(ambush)) return;
    // Before its first message arrives; or after two round trips, when entries of earlier terms have been acknowledged
    // and its own has not.
    const delayMs = network.delayMs * random.pick([0.3, 0.3, 2.5, 4.5]) * (0.8 + 0.4 * random.next());
    this.#world.queue.after(delayMs, () => {
      if (node.process === undefined) return;
      this.#count('ambush', `n${node.id}`);
      if (random.chance(0.7)) this.#world.network.drop(node.id);
      if (random.chance(0.5)) {
        node.process.die(true);
        this.#world.queue.after(random.int(20, 600), () => node.start());
        return;
      }
      for (const { id } of this.#world.nodes) {
        this.#world.network.cut(node.id, id);
        this.#world.network.cut(id, node.id);
      }
      this.#world.queue.after(random.int(200, 3000), () => this.#world.network.heal());
    });
  }

  /** Ends everything that is out of order. */
  heal(): void {
    this.#world.network.calm();
    for (const node of this.#world.nodes) {
      this.#makeRoom(node);
      node.slowMs = 0;
      node.start();
      node.drain(false);
    }
  }

  #later(kind: FaultKind): void {
    const meanMs = this.#world.options.faults[kind];
    if (meanMs === Infinity) return;
    this.#world.queue.after(-meanMs * Math.log(1 - this.#random.next()), () => {
      if (!this.#world.faulty) return;
      this.#strike(kind);
      this.#later(kind);
    });
  }

  #count(kind: string, detail = ''): void {
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
    this.#world.trace(`fault ${kind} ${detail}`);
  }

  #strike(kind: FaultKind): void {
    const random = this.#random;
    const node = random.pick(this.#world.nodes);
    switch (kind) {
      case 'crash':
        return this.#crash(node);
      case 'blackout':
        this.#count(kind);
        for (const each of this.#world.nodes) this.#crash(each);
        return;
      case 'stop':
        return this.#stop(node);
      case 'pause':
        this.#count(kind, `n${node.id}`);
        node.process?.pause(random.int(100, random.pick([500, 5000])));
        return;
      case 'partition':
        return this.#partition();
      case 'oneway':
        return this.#oneWay();
      case 'reset':
        this.#count(kind);
        this.#world.network.reset(node.id, random.pick(this.#world.nodes).id);
        return;
      case 'full':
        this.#count(kind, `n${node.id}`);
        node.setSpaceLeft(random.chance(0.3));
        node.full = random.chance(0.7);
        this.#world.queue.after(random.int(100, random.pick([1000, 7000])), () => this.#makeRoom(node));
        return;
      case 'slow':
        this.#count(kind, `n${node.id}`);
        node.slowMs = random.pick([10, 100, 600]);
        this.#world.queue.after(random.int(200, 3000), () => (node.slowMs = 0));
        return;
      case 'clock':
        this.#count(kind, `n${node.id}`);
        node.wallOffsetMs += random.pick([-3_600_000, -20_000, -3000, 3000, 20_000, 3_600_000]);
        return;
      case 'wipe':
        if (!this.#wipe(node)) {
          this.#world.queue.after(WIPE_RETRY_MS, () => {
            if (this.#world.faulty) this.#strike(kind);
          });
        }
        return;
      case 'transfer':
        return this.#admin(kind, { call: 'transfer', node: random.pick(this.#world.nodes).id });
      case 'membership':
        return this.#membership();
      case 'purge':
        this.#admin(kind, { call: 'snapshot' }, node);
        return this.#admin(kind, { call: 'purge', upTo: undefined }, node);
      case 'shed':
        this.#count(kind, `n${node.id}`);
        node.drain(random.chance(0.5));
    }
  }

  #rotLater(): void {
    const { options, queue } = this.#world;
    const random = this.#rotRandom;
    queue.after(-options.rotMs * Math.log(1 - random.next()), () => {
      const node = random.pick(this.#world.nodes);
      if (random.chance(0.7)) this.#rotRecord(node);
      else this.#rot(node, () => rotUnused(node.disk, random));
      this.#rotLater();
    });
  }

  #rotRowLater(meanMs: number): void {
    const { queue, nodes } = this.#world;
    const random = this.#rotRandom;
    queue.after(-meanMs * Math.log(1 - random.next()), () => {
      if (!this.#world.faulty) return;
      const node = random.pick(nodes);
      if (this.#wiped === 0 && this.#isOnlyRotten(node) && node.rotRow(random)) this.#count('rotRow', `n${node.id}`);
      this.#rotRowLater(meanMs);
    });
  }

  #isOnlyRotten(node: SimNode): boolean {
    return this.#world.nodes.every((each) => each === node || each.rottenRows.length === 0);
  }

  #rotGroupLater(meanMs: number): void {
    const random = this.#rotRandom;
    this.#world.queue.after(-meanMs * Math.log(1 - random.next()), () => {
      const node = random.pick(this.#world.nodes);
      if (this.#world.faulty && this.#isOnlyRotten(node) && this.#mayLose(node)) this.#rotGroup(node);
      this.#rotGroupLater(meanMs);
    });
  }

  /** Its log is lost with it. */
  #rotGroup(node: SimNode): void {
    this.#rot(node, () => {
      node.rotGroupRow(this.#rotRandom);
      if (node.rotGroup === undefined) return;
      this.#count('rotGroup');
      node.wasRotten = true;
      this.#wiped = node.id;
      this.#world.checks.countable = false;
    });
  }

  /** Its log is lost with it, so that is for when the others can do without. */
  #rotRecord(node: SimNode): void {
    if (!this.#world.faulty) return;
    if (!this.#mayLose(node)) {
      this.#world.queue.after(WIPE_RETRY_MS, () => this.#rotRecord(node));
      return;
    }
    this.#rot(node, () => {
      if (!rotRecord(node.disk, this.#rotRandom)) return this.#count('rotNothing');
      this.#count('rotFound');
      node.rot = 'record';
      node.wasRotten = true;
      this.#wiped = node.id;
      this.#world.checks.countable = false;
    });
  }

  /** Bits of the log of a node flip while it is down. */
  #rot(node: SimNode, flip: () => void): void {
    if (!this.#world.faulty || node.process === undefined) return;
    this.#count('rot', `n${node.id}`);
    node.process.die(true);
    flip();
    this.#world.queue.after(this.#rotRandom.int(20, 1000), () => node.start());
  }

  #makeRoom(node: SimNode): void {
    node.full = false;
    node.setSpaceLeft(true);
  }

  #crash(node: SimNode): void {
    if (node.process === undefined) return;
    this.#count('crash', `n${node.id}`);
    node.process.die(true);
    this.#restartLater(node);
  }

  #stop(node: SimNode): void {
    if (node.process === undefined) return;
    this.#count('stop', `n${node.id}`);
    node.process.stop();
    this.#restartLater(node);
  }

  #restartLater(node: SimNode): void {
    this.#world.queue.after(this.#random.int(20, this.#random.pick([300, 6000])), () => node.start());
  }

  #partition(): void {
    const { nodes, network, queue } = this.#world;
    const side = nodes.filter(() => this.#random.chance(0.4)).map(({ id }) => id);
    this.#count('partition', side.join(' '));
    for (const { id: a } of nodes) {
      for (const { id: b } of nodes) if (side.includes(a) !== side.includes(b)) network.cut(a, b);
    }
    queue.after(this.#random.int(200, this.#random.pick([2000, 8000])), () => network.heal());
  }

  #oneWay(): void {
    const { nodes, network, queue } = this.#world;
    const from = this.#random.pick(nodes).id;
    this.#count('oneway', `from n${from}`);
    for (const { id } of nodes) if (id !== from && this.#random.chance(0.7)) network.cut(from, id);
    queue.after(this.#random.int(200, this.#random.pick([2000, 8000])), () => network.heal());
  }

  #leader(group: number): SimNode | undefined {
    let best: SimNode | undefined;
    let term = -1;
    for (const node of this.#world.nodes) {
      const led = node.process?.shard.group(group);
      if (led?.leads !== true || led.raft.term <= term) continue;
      best = node;
      term = led.raft.term;
    }
    return best;
  }

  #groupOf(node: SimNode, group: number): Group {
    return node.process?.shard.group(group) as Group;
  }

  #admin(kind: string, asked: AdminRequest, at?: SimNode): void {
    const group = this.#random.pick(this.#world.options.groups);
    const node = at ?? this.#leader(group);
    if (node?.process === undefined) return;
    this.#count(kind, `g${group} n${node.id} ${JSON.stringify(asked)}`);
    node.process.request(adminRequest(group, asked), false, (reply) => {
      if (reply === undefined || reply.code !== 0) return;
      const { outcome } = QUERIES.admin.result.read(reply);
      if (outcome === 'failed' || outcome === 'store-failed') throw this.#world.failure(`${kind}: ${outcome}`);
    });
  }

  /** A learner, or other voters among the group's members. */
  #membership(): void {
    const random = this.#random;
    const group = random.pick(this.#world.options.groups);
    const node = this.#leader(group);
    if (node === undefined || this.#wiped !== 0) return;
    const { voters, learners } = this.#groupOf(node, group).raft.configuration;
    const outside = this.#world.nodes.filter(({ id }) => !voters.includes(id) && !learners.includes(id));
    this.#world.checks.countable = false;
    this.#membershipAtMs = this.#world.queue.nowMs;
    if (outside.length > 0 && random.chance(0.6)) {
      this.#admin('learner', { call: 'learner', node: random.pick(outside).id, address: '' }, node);
      return;
    }
    const wanted = [...voters, ...learners].filter(() => random.chance(0.75)).sort((a, b) => a - b);
    if (wanted.length < 2) return;
    this.#admin('membership', { call: 'membership', voters: wanted }, node);
  }

  /** The others can do without what the node has. */
  #mayLose(node: SimNode): boolean {
    const { nodes, options } = this.#world;
    if (this.#wiped !== 0 || nodes.some(({ process }) => process === undefined)) return false;
    if (nodes.some(({ lostLog }) => lostLog)) return false;
    // A call may still wait in the mailbox of a suspended process.
    if (this.#world.queue.nowMs - this.#membershipAtMs < MEMBERSHIP_DONE_MS) return false;
    for (const group of options.groups) {
      const { configuration } = this.#groupOf(node, group).raft;
      const agreed = JSON.stringify(configuration);
      if (configuration.votersOutgoing.length > 0 || configuration.voters.length < 3) return false;
      if (nodes.some((other) => JSON.stringify(this.#groupOf(other, group).raft.configuration) !== agreed))
        return false;
    }
    return true;
  }

  /**
   * A node loses its disk and comes back under its old id, when the others can do without it. False: they cannot now.
   */
  #wipe(node: SimNode): boolean {
    if (!this.#mayLose(node)) return false;
    this.#count('wipe', `n${node.id}`);
    this.#wiped = node.id;
    this.#world.checks.countable = false;
    node.process?.die(true);
    node.wipe();
    this.#restartLater(node);
    return true;
  }

  /** Looks in now and then: allows a replaced node to come back, as the runbook says. */
  #operate(): void {
    this.#world.queue.after(OPERATOR_MS, () => {
      this.#allowReverts();
      this.#noticeRestored();
      this.#operate();
    });
  }

  #allowReverts(): void {
    for (const group of this.#world.options.groups) {
      for (const node of this.#world.nodes) {
        const led = node.process?.shard.group(group);
        if (led?.leads !== true) continue;
        for (const peer of led.raft.peers()) {
          if (peer.recovery !== 'asking') continue;
          this.#count('allow-next-revert', `g${group} n${peer.node}`);
          node.process?.request(adminRequest(group, { call: 'allow-revert', node: peer.node }), false, () => undefined);
        }
      }
    }
  }

  #noticeRestored(): void {
    const node = this.#world.nodes[this.#wiped - 1];
    const process = node?.process;
    if (node === undefined || process === undefined || !node.knowsLoss) return;
    if (this.#world.options.groups.some((group) => process.store.lost(group) !== 0)) return;
    this.#count('restored', `n${node.id}`);
    node.lostLog = false;
    node.wasRotten = false;
    this.#wiped = 0;
  }
}
