/**
 * After the faults: the cluster must come to rest within bounded time, and everything ever acknowledged must be there.
 */
import { errorCode } from '../../src/base/errors.ts';
import type { Group } from '../../src/group/group.ts';
import { FOR_A_WHILE } from './client.ts';
import type { Clients, SimStream } from './clients.ts';
import type { Exporting } from './backup/exporting.ts';
import type { Restoring } from './backup/restoring.ts';
import type { SessionTraffic } from './sessions/traffic.ts';
import { ColdEnd } from './cold/end.ts';
import type { Forking } from './forks/forking.ts';
import type { SimNode } from './node.ts';
import { adminRequest, appendRequest } from './requests.ts';
import { textPayload } from './tokens.ts';
import { WholeReads } from './whole-reads.ts';
import type { World } from './world.ts';

/** Elections, snapshots of everything, replaced disks, changes of membership that wait for them. */
const REST_MS = 120_000;
/** A stream moves a few hundred bytes in each flush interval, where objects are small and the interval is long. */
const DRAIN_MS = 5 * REST_MS;
const LOOK_MS = 250;
const SETTLE_MS = 6000;

/** Lets time pass until something is done, or fails with what is missing. */
export type Until = (done: () => boolean, what: () => string) => void;

export interface LivenessParts {
  readonly exporting: Exporting;
  readonly forking: Forking | undefined;
  readonly restoring: Restoring | undefined;
  readonly sessions: SessionTraffic | undefined;
}

export class Liveness {
  readonly #world: World;
  readonly #clients: Clients;
  readonly #parts: LivenessParts;

  constructor(world: World, clients: Clients, parts: LivenessParts) {
    this.#parts = parts;
    this.#world = world;
    this.#clients = clients;
  }

  run(runUntil: (untilMs: number) => void): void {
    const { queue } = this.#world;
    let deadlineMs = queue.nowMs + REST_MS;
    const until: Until = (done, what) => {
      while (!done()) {
        if (queue.nowMs > deadlineMs) throw this.#world.failure(`liveness: ${what()}`);
        runUntil(queue.nowMs + LOOK_MS);
      }
    };
    // Paused processes have the operators' calls of the safety phase still before them.
    runUntil(queue.nowMs + SETTLE_MS);
    until(
      () => this.#world.options.groups.every((group) => this.#everybodyIn(group)),
      () => `not all nodes vote: ${this.#describe()}`,
    );
    until(
      () => this.#parts.restoring?.settled !== false,
      () => `nothing is restored: ${this.#describe()}`,
    );
    this.#giveAway(until);
    this.#clients.stop();
    until(
      () => this.#clients.busy === 0,
      () => `${this.#clients.busy} requests have no answer`,
    );
    this.#parts.sessions?.finish(until);
    // Clients lose their patience; nodes must not forget them even so.
    const waiting = ({ process }: SimNode): number => process?.waiting ?? 0;
    until(
      () => this.#world.nodes.every((node) => waiting(node) === 0),
      () => `nodes owe answers: ${this.#world.nodes.map(waiting).join(' ')}; ${this.#describe()}`,
    );
    this.#clients.quotas.liftAll();
    until(
      () => this.#clients.quotas.lifted,
      () => `quotas are not lifted: ${this.#describe()}`,
    );
    let left = 0;
    for (const node of this.#world.nodes) {
      for (const stream of this.#clients.streams) {
        if (stream.use !== 'plain' || stream.json || !stream.created) continue;
        left++;
        this.#write(stream, node, 0, () => left--);
      }
    }
    until(
      () => left === 0,
      () => `${left} writes do not succeed: ${this.#describe()}`,
    );
    until(
      () => this.#world.options.groups.every((group) => this.#equal(group)),
      () => `replicas do not become equal: ${this.#describe()}`,
    );
    until(
      () => this.#world.nodes.every(({ rottenRows }) => rottenRows.length === 0),
      () => `rows that rotted are not repaired: ${this.#world.nodes.flatMap(({ rottenRows }) => rottenRows).join(' ')}`,
    );
    this.#parts.exporting.finish(until);
    this.#readAll(until);
    deadlineMs = queue.nowMs + REST_MS;
    this.#parts.forking?.finish(until);
    const { cold } = this.#world;
    if (cold === undefined) return;
    deadlineMs = queue.nowMs + DRAIN_MS;
    const end = new ColdEnd(this.#world, cold, this.#clients, until);
    end.drain();
    deadlineMs = queue.nowMs + REST_MS;
    this.#readAll(until);
    end.emptyStore();
  }

  /** A node without room on its disk, among others that have it, keeps no leadership. */
  #giveAway(until: Until): void {
    const { nodes, options } = this.#world;
    const leads = ({ process }: SimNode): boolean =>
      options.groups.some((group) => process?.shard.group(group)?.leads === true);
    const node = nodes.find(leads);
    if (node === undefined || nodes.length < 3 || nodes.some(({ draining }) => draining)) return;
    node.setSpaceLeft(false);
    until(
      () => !leads(node),
      () => `node ${node.id} has no room and leads on: ${this.#describe()}`,
    );
    // No node has space and a leader dies: one must lead nevertheless, or not even a delete could free space.
    for (const each of nodes) each.setSpaceLeft(false);
    const last = nodes.find(leads);
    last?.process?.die(true);
    last?.start();
    until(
      () => options.groups.every((group) => nodes.some(({ process }) => process?.shard.group(group)?.leads === true)),
      () => `no node leads without disk space: ${this.#describe()}`,
    );
    for (const each of nodes) each.setSpaceLeft(true);
  }

  /** Every node votes; what is missing for that is asked for. */
  #everybodyIn(group: number): boolean {
    const { nodes, options } = this.#world;
    const leader = nodes.find(({ process }) => process?.shard.group(group)?.leads === true);
    if (leader?.process === undefined) return false;
    const { raft } = leader.process.shard.group(group) as Group;
    const { voters, votersOutgoing, learners } = raft.configuration;
    if (votersOutgoing.length > 0 || raft.configurationIndex > raft.commitIndex) return false;
    if (voters.length === options.nodes.length) {
      return nodes.every(({ process }) => process?.shard.group(group)?.raft.mayVote === true);
    }
    const outside = options.nodes.find((id) => !voters.includes(id) && !learners.includes(id));
    const request =
      outside === undefined
        ? adminRequest(group, { call: 'membership', voters: options.nodes })
        : adminRequest(group, { call: 'learner', node: outside, address: '' });
    leader.process.request(request, false, () => undefined);
    return false;
  }

  #write(stream: SimStream, node: SimNode, tries: number, done: () => void): void {
    const token = this.#clients.newToken(`z${node.id}`);
    const payload = textPayload(token, 0);
    const op = stream.history.begin(token, payload.length, 0);
    this.#clients.send(node.id, appendRequest(stream, payload), false, (reply) => {
      const code = reply === undefined ? 'OUTCOME_UNKNOWN' : errorCode(reply.code);
      if (code === 'OK' && reply !== undefined) {
        stream.history.acknowledged(op, reply.startOffset, reply.nextOffset, node.id);
        done();
        return;
      }
      op.outcome = 'unknown';
      if (code !== 'OUTCOME_UNKNOWN' && !FOR_A_WHILE.has(code)) {
        throw this.#world.failure(`liveness: a write is answered with ${code}`);
      }
      this.#world.queue.after(200, () => this.#write(stream, node, tries + 1, done));
    });
  }

  /** All have applied, and stored, the same index; the checks have compared what they stored. */
  #equal(group: number): boolean {
    const { nodes, checks } = this.#world;
    const last = checks.references[group]?.last ?? 0;
    return nodes.every(({ process }) => {
      const state = process?.shard.group(group)?.state;
      return state !== undefined && state.appliedIndex === last && !state.dirty;
    });
  }

  #readAll(until: Until): void {
    const whole = new WholeReads(this.#world, this.#clients);
    let left = 0;
    for (const stream of this.#clients.streams) {
      if ((stream.use !== 'plain' && stream.use !== 'closable') || !stream.created) continue;
      for (const node of this.#world.nodes) {
        left++;
        whole.read(stream, node, () => left--);
      }
    }
    until(
      () => left === 0,
      () => `${left} reads are not answered`,
    );
    for (const stream of this.#clients.streams) this.#finish(stream);
    this.#clients.watching.finish();
  }

  /** Against what the reference has applied: this covers streams, too, that came and went. */
  #finish(stream: SimStream): void {
    if ((stream.use === 'plain' || stream.use === 'closable') && stream.created) stream.history.finish();
    if (this.#world.blind) return;
    const effects = this.#world.checks.references[stream.group]?.effects;
    const fail = (what: string): never => {
      throw this.#world.failure(`${what} in ${stream.name}`);
    };
    for (const op of stream.history.ops.values()) {
      const effect = effects?.get(op.token);
      const count = effect?.count ?? 0;
      if (count > 1) fail(`doubled: ${op.token} took effect ${count} times`);
      if (op.outcome === 'ok' && count === 0) fail(`lost: ${op.token} was acknowledged`);
      if (op.outcome === 'ok' && effect?.start !== op.start) fail(`${op.token} is not at ${op.start}`);
      if (op.outcome === 'refused' && count > 0) fail(`${op.token} was refused and took effect`);
    }
  }

  #describe(): string {
    return this.#world.nodes
      .map(({ id, process }) => {
        const groups = process?.shard.groups.map(({ id: group, raft, state }) => {
          const { voters, votersOutgoing, learners } = raft.configuration;
          const members = `${voters.join(',')}/${votersOutgoing.join(',')}/${learners.join(',')}`;
          const peers = raft.peers().map((peer) => `${peer.node}:${peer.state}:${peer.match}:${peer.recovery}`);
          return (
            `g${group} ${raft.role} term=${raft.term} leader=${raft.leader} commit=${raft.commitIndex} last=${raft.lastIndex}` +
            ` applied=${state.appliedIndex} dirty=${state.dirty} vote=${raft.mayVote} ${members} [${peers.join(' ')}]`
          );
        });
        return `n${id} ${groups?.join('; ') ?? 'down'}`;
      })
      .join(' | ');
  }
}
