/**
 * Operators' calls about one Raft group. An answer is an outcome and a body: JSON, or one sentence. Calls that have to
 * wait (membership, learners) are checked once a turn, for a bounded time.
 */
import type { Group } from '../group/group.ts';
import { members } from '../raft/configuration.ts';
import type { ExportsHost } from '../backup/shard/exports.ts';
import { flushCall } from '../cold/shard/flush-call.ts';
import type { ColdTier } from '../cold/shard/tier.ts';
import { Reply } from '../protocol/reply.ts';
import type { Query } from '../protocol/request.ts';
import { QUERIES } from '../protocol/operations.ts';
import { type CallResult, notLeader, sentence } from '../protocol/queries/administration.ts';

/** How long to wait for learners and membership changes. */
const WAIT_MS = 10_000;
/** Entries that a learner may be behind the commit index and still count as caught up, also to become a voter. */
const LEARNER_LAG_MAX = 64;

/** The shard, as these calls need it. */
export interface AdminHost extends ExportsHost {
  readonly nodeId: number;
  /** Nodes of the configuration file. */
  readonly knownNodes: readonly number[];
  readonly cold: ColdTier | undefined;
  /** Applied index of the group's last checkpoint on disk. */
  checkpointed(group: Group): number;
  /** Compacts the log up to `index`, except what a running snapshot transfer needs; returns the last one compacted. */
  compact(group: Group, index: number): number;
}

interface Pending {
  readonly slot: number;
  readonly deadlineMs: number;
  /** The answer, or undefined while there is none. */
  readonly look: () => CallResult | undefined;
  readonly late: string;
}

export class Administration {
  readonly #host: AdminHost;
  readonly #reply = new Reply();
  #pending: Pending[] = [];

  constructor(host: AdminHost) {
    this.#host = host;
  }

  handle(slot: number, group: Group, query: Query, clockMs: number): void {
    const answer = this.#start(slot, group, query, clockMs);
    if (answer !== undefined) this.#answer(slot, answer);
  }

  /** Once a turn: answers calls that completed or timed out. */
  turn(clockMs: number): void {
    if (this.#pending.length === 0) return;
    this.#pending = this.#pending.filter((one) => {
      const answer = one.look() ?? (clockMs > one.deadlineMs ? sentence('retry', one.late) : undefined);
      if (answer !== undefined) this.#answer(one.slot, answer);
      return answer === undefined;
    });
  }

  /** Moves one stream to the cold store. */
  flush(slot: number, group: Group, query: Query, clockMs: number): void {
    const look = flushCall(this.#host.cold, group, query);
    const late = 'the flush is still under way; look at the metrics';
    const answer = look() ?? this.#wait(slot, clockMs, look, late);
    if (answer !== undefined) this.#answer(slot, answer);
  }

  #wait(slot: number, clockMs: number, look: () => CallResult | undefined, late: string): undefined {
    this.#pending.push({ slot, deadlineMs: clockMs + WAIT_MS, look, late });
  }

  #start(slot: number, group: Group, query: Query, clockMs: number): CallResult | undefined {
    const wait: Wait = (look, late) => this.#wait(slot, clockMs, look, late);
    const asked = QUERIES.admin.request.read(query);
    switch (asked.call) {
      case 'snapshot':
        return this.#snapshot(group);
      case 'purge':
        return this.#compact(group, asked.upTo);
      case 'transfer':
        return this.#transfer(group, asked.node);
      case 'allow-revert':
        return this.#allowRevert(group, asked.node);
      case 'learner':
        return this.#learner(group, asked.node, asked.address, wait);
      case 'forget-learner':
        return this.#forgetLearner(group, asked.node, wait);
      case 'membership':
        return this.#membership(group, asked.voters, wait);
    }
  }

  #answer(slot: number, answer: CallResult): void {
    const reply = this.#reply;
    reply.reset(slot);
    QUERIES.admin.result.write(reply, answer);
    this.#host.deliver(reply);
  }

  #snapshot(group: Group): CallResult {
    const code = this.#host.checkpoint(group);
    if (code === 'DISK_FULL') return sentence('disk-full', 'the disk is full: the snapshot was not written');
    if (code === 'SHARD_BUSY')
      return sentence('retry', 'the disk is slow or hangs: an earlier checkpoint is not on it yet; try again');
    return {
      outcome: 'done',
      body: { raft_group_id: group.id, snapshot_index: this.#host.checkpointed(group) },
    };
  }

  #compact(group: Group, upTo: number | undefined): CallResult {
    const snapshot = this.#host.checkpointed(group);
    const index = upTo ?? snapshot;
    if (index > snapshot) {
      return sentence(
        'invalid',
        `upto ${index} lies beyond the last snapshot index ${snapshot}; take a snapshot first`,
      );
    }
    return { outcome: 'done', body: { raft_group_id: group.id, purged_index: this.#host.compact(group, index) } };
  }

  #transfer(group: Group, to: number): CallResult {
    const { nodeId } = this.#host;
    if (!group.leads) return notLeader(group, { transferred: false });
    if (to === nodeId) return sentence('invalid', `node ${to} leads group ${group.id} already`);
    if (!group.raft.configuration.voters.includes(to)) {
      return sentence('invalid', `node ${to} is not a voter of group ${group.id}`);
    }
    // Earlier commands go into the log first; later ones wait for the transfer.
    group.seal();
    const outcome = group.raft.transferLeadership(to);
    const body = { raft_group_id: group.id, from: nodeId, to };
    if (outcome === 'started') return { outcome: 'done', body: { ...body, transferred: true } };
    // Another voter may accept it.
    const isDeclined = outcome === 'refused' || outcome === 'lagging';
    return { outcome: isDeclined ? 'declined' : 'refused', body: { ...body, transferred: false, reason: outcome } };
  }

  #allowRevert(group: Group, node: number): CallResult {
    const body = { raft_group_id: group.id, node_id: node };
    if (!group.leads) return notLeader(group, { node_id: node, allow_next_revert: false });
    if (!members(group.raft.configuration).includes(node)) {
      return sentence('invalid', `node ${node} is not a member of group ${group.id}`);
    }
    if (group.raft.allowNextRevert(node)) return { outcome: 'done', body: { ...body, allow_next_revert: true } };
    return { outcome: 'failed', body: { ...body, allow_next_revert: false, reason: 'refused' } };
  }

  /** `address` is empty when the configuration file contains it. */
  #learner(group: Group, node: number, address: string, wait: Wait): CallResult | undefined {
    if (!group.leads) return notLeader(group, { node_id: node, changed: false });
    const { configuration } = group.raft;
    const known = configuration.addresses?.get(node);
    if (!this.#host.knownNodes.includes(node) && address === '' && known === undefined) {
      return sentence(
        'invalid',
        `node ${node} is not in raft.peers of this node; give its cluster_listen as addr=HOST:PORT`,
      );
    }
    if (configuration.voters.includes(node))
      return sentence('invalid', `node ${node} is a voter of group ${group.id} already`);
    const isNew = !configuration.learners.includes(node);
    if (isNew || (address !== '' && address !== known)) {
      const learners = [...configuration.learners, node];
      const addresses = new Map(address === '' ? [] : [[node, address]]);
      const index = group.raft.proposeConfiguration({ voters: configuration.voters, learners, addresses });
      if (index === 0) return sentence('retry', 'another membership change is under way; try again');
    }
    const done = (): CallResult | undefined => {
      if (!group.leads) return notLeader(group, { node_id: node, changed: false });
      if (!members(group.raft.configuration).includes(node))
        return sentence('refused', `node ${node} was taken out again meanwhile`);
      if (!hasCaughtUp(group, node)) return undefined;
      if (group.raft.configurationIndex > group.raft.commitIndex) return undefined;
      return {
        outcome: 'done',
        body: { raft_group_id: group.id, node_id: node, log_index: group.raft.configurationIndex },
      };
    };
    return wait(
      done,
      `node ${node} is a learner of group ${group.id} but has not caught up yet; ask again, or DELETE it`,
    );
  }

  /** Repeatable: the caller's goal is a node that is not a learner. */
  #forgetLearner(group: Group, node: number, wait: Wait): CallResult | undefined {
    if (!group.leads) return notLeader(group, { node_id: node, changed: false });
    const { configuration } = group.raft;
    if (configuration.voters.includes(node) || configuration.votersOutgoing.includes(node)) {
      return sentence(
        'invalid',
        `node ${node} is a voter of group ${group.id}; name the voters that stay with membership`,
      );
    }
    const changed = configuration.learners.includes(node);
    if (changed) {
      const learners = configuration.learners.filter((one) => one !== node);
      if (group.raft.proposeConfiguration({ voters: configuration.voters, learners }) === 0) {
        return sentence('retry', 'another membership change is under way; try again');
      }
    }
    const done = (): CallResult | undefined => {
      const { raft } = group;
      if (!group.leads) return notLeader(group, { node_id: node, changed: false });
      if (raft.configurationIndex > raft.commitIndex) return undefined;
      return {
        outcome: 'done',
        body: { raft_group_id: group.id, node_id: node, log_index: raft.configurationIndex, changed },
      };
    };
    return done() ?? wait(done, 'the change was started but is not committed yet; ask again');
  }

  #membership(group: Group, named: readonly number[], wait: Wait): CallResult | undefined {
    const voters = [...new Set(named)].sort((a, b) => a - b);
    if (!group.leads) return notLeader(group, { changed: false });
    const { raft } = group;
    const isNamed = (): boolean => raft.configuration.voters.join() === voters.join();
    // An earlier call may have started the change.
    const refusal = isNamed() ? undefined : this.#startMembership(group, voters);
    if (refusal !== undefined) return refusal;
    const done = (): CallResult | undefined => {
      const { configuration, configurationIndex: index } = raft;
      if (!isNamed() || configuration.votersOutgoing.length > 0 || index > raft.commitIndex) {
        return group.leads ? undefined : notLeader(group, { changed: false });
      }
      return {
        outcome: 'done',
        body: { raft_group_id: group.id, voter_ids: voters, log_index: index, changed: true },
      };
    };
    return done() ?? wait(done, 'the change was started but is not committed yet; look at the metrics');
  }

  /** Undefined: it was started. */
  #startMembership(group: Group, voters: readonly number[]): CallResult | undefined {
    const { nodeId } = this.#host;
    const { configuration } = group.raft;
    const unknown = voters.filter((node) => !members(configuration).includes(node));
    if (unknown.length > 0) {
      return sentence(
        'invalid',
        `node ${unknown.join(', ')} is neither voter nor learner of group ${group.id}; add it as a learner first`,
      );
    }
    const refused = (reason: string): CallResult => ({
      outcome: 'refused',
      body: { raft_group_id: group.id, current_leader: nodeId, changed: false, reason },
    });
    const behind = voters.filter((node) => !mayBecomeVoter(group, node, nodeId));
    if (behind.length > 0)
      return refused(`node ${behind.join(', ')} has not caught up, or lost its log and was not allowed to come back`);
    // Not measured in entries: a voter behind a long link always lacks some of a busy group.
    const able = new Set(group.raft.peers().flatMap(({ node, keepsUp }) => (keepsUp ? [node] : []))).add(nodeId);
    const slow = voters.filter((node) => !able.has(node));
    if (slow.length * 2 >= voters.length) {
      const names = slow.join(', ');
      return refused(`of the voters ${voters.join(', ')} too many do not answer or are behind (node ${names})`);
    }
    const learners = configuration.learners.filter((node) => !voters.includes(node));
    if (group.raft.proposeConfiguration({ voters, learners }) === 0) {
      return sentence('retry', 'another membership change is under way; try again');
    }
    return undefined;
  }
}

type Wait = (look: () => CallResult | undefined, late: string) => undefined;

/**
 * A voter that cannot vote stops the group when one more fails: with voters 2 and 4, of which 4 has an empty disk, no
 * node can be elected when 2 stops leading.
 */
function mayBecomeVoter(group: Group, node: number, self: number): boolean {
  if (node === self) return true;
  const peer = group.raft.peers().find((one) => one.node === node);
  if (peer === undefined || peer.recovery !== 'none') return false;
  return group.raft.configuration.voters.includes(node) || hasCaughtUp(group, node);
}

/** It has accepted appends and is at most a little behind. */
function hasCaughtUp(group: Group, node: number): boolean {
  const peer = group.raft.peers().find((one) => one.node === node);
  if (peer?.state !== 'replicate' || peer.recovery !== 'none') return false;
  return peer.match + LEARNER_LAG_MAX >= group.raft.commitIndex;
}
