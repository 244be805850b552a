/**
 * The leadership balancer of this node: once a second it hands over at most one group that this node leads. While the
 * node is draining, until it leads none; otherwise while it leads more than its fair share.
 *
 * Every node moves only what it leads itself and uses only its own view, so no agreement is needed: two nodes that give
 * to the same third one may overshoot by one group, which that node's own balancer corrects. Only the group's leader
 * knows who can take over (is it alive, caught up, willing?), so the balancer finds out by asking: a node that refused
 * twice in a row counts as unreachable for a while.
 */
import { askNodeStatus } from '../gateway/node-status.ts';
import { callGroup } from '../gateway/shard-client.ts';
import type { ShardGateway } from '../ports.ts';
import { type IntervalOptions, NonOverlappingInterval } from './non-overlapping-interval.ts';
import { QUERIES } from '../protocol/operations.ts';

const TICK_MS = 1000;
/** One refusal may be chance: a peer counts as silent for a moment after each quorum check. */
const REFUSALS_MAX = 2;
/** Ticks without requests to a node that refused; also how long an unreachable node is left out of the fair share. */
const PAUSE_TICKS = 10;
/** A started hand-over takes effect, or is abandoned, within an election timeout: less than this. */
const HAND_OVER_TICKS = 2;
/** Requests in one tick: when no node accepts anything, a drain must not keep the shards busy. */
const ATTEMPTS_MAX = 16;

export interface BalancedGroup {
  readonly id: number;
  readonly leader: number | null;
  readonly voters: readonly number[];
  /** This node leads it, and the cold store rejects its bytes. */
  readonly coldFailing?: boolean;
  /** This node recently gave up its leadership because nothing was committed. */
  readonly stalled?: boolean;
  /** Node -> HOST:PORT of its cluster plane, for those that joined while the cluster ran. */
  readonly addresses?: Readonly<Record<string, string>> | undefined;
}

export interface Situation {
  readonly nodeId: number;
  readonly draining: boolean;
  readonly groups: readonly BalancedGroup[];
  readonly unreachable: ReadonlySet<number>;
  /** Possible receivers; undefined: all nodes. */
  readonly receivers?: ReadonlySet<number> | undefined;
  /** Groups after this one come first, so that one that cannot be moved does not block the others. */
  readonly after: number;
}

export interface Transfer {
  readonly group: number;
  readonly to: number;
}

/** The transfers to try, in order; the first accepted one is the tick's only one. */
export function planTransfers({ nodeId, draining, groups, unreachable, receivers, after }: Situation): Transfer[] {
  const leads = new Map<number, number>();
  for (const { leader } of groups) if (leader !== null) leads.set(leader, leadsOf(leads, leader) + 1);
  const fair = draining ? 0 : fairShare(nodeId, groups, unreachable);
  if (leadsOf(leads, nodeId) <= fair) return [];
  const led = groups.filter(({ leader }) => leader === nodeId).sort((a, b) => a.id - b.id);
  const inTurn = [...led.filter(({ id }) => id > after), ...led.filter(({ id }) => id <= after)];
  const rank = (node: number): number => (unreachable.has(node) ? 1 : 0);
  return inTurn.flatMap(({ id, voters }) =>
    voters
      .filter((node) => node !== nodeId && receivers?.has(node) !== false)
      // Without a drain no node gets more than the fair share.
      .filter((node) => draining || (!unreachable.has(node) && leadsOf(leads, node) < fair))
      .sort((a, b) => rank(a) - rank(b) || leadsOf(leads, a) - leadsOf(leads, b) || a - b)
      .map((to) => ({ group: id, to })),
  );
}

function leadsOf(leads: ReadonlyMap<number, number>, node: number): number {
  return leads.get(node) ?? 0;
}

/** Groups for each voter that can lead. */
function fairShare(nodeId: number, groups: readonly BalancedGroup[], unreachable: ReadonlySet<number>): number {
  const able = new Set([nodeId]);
  for (const { voters } of groups) for (const node of voters) if (!unreachable.has(node)) able.add(node);
  return Math.ceil(groups.length / able.size);
}

export interface BalancerOptions extends IntervalOptions {
  readonly nodeId: number;
  readonly gateway: ShardGateway;
  isDraining(): boolean;
  /** Possible receivers; undefined: all nodes. */
  receivers?(): ReadonlySet<number> | undefined;
  /** Called for every hand-over when it has taken effect, or has failed to in time. */
  onTransfer(transfer: Transfer, outcome: 'done' | 'failed'): void;
  /** The groups that a round has seen. */
  onGroups?(groups: readonly BalancedGroup[]): Promise<void>;
}

interface Refusals {
  inARow: number;
  pausedUntilTick: number;
}

interface HandOver {
  readonly to: number;
  readonly sinceTick: number;
}

/** Result of requesting one transfer. */
type Outcome = 'started' | 'declined' | 'impossible';

export class Balancer extends NonOverlappingInterval {
  /** Hand-overs that were started. */
  transfers = 0;
  /** The groups as the last round saw them. */
  groups: readonly BalancedGroup[] = [];
  readonly #options: BalancerOptions;
  readonly #refusals = new Map<number, Refusals>();
  /** Hand-overs of unknown outcome, by group. */
  readonly #handOvers = new Map<number, HandOver>();
  #tick = 0;
  #after = -1;

  constructor(options: BalancerOptions) {
    super(TICK_MS, options);
    this.#options = options;
  }

  protected override async round(): Promise<void> {
    this.#tick++;
    const groups = await this.#askGroups();
    if (groups === undefined) return;
    this.groups = groups;
    await this.#options.onGroups?.(groups);
    const unreachable = this.#unreachable();
    const plan = planTransfers({
      nodeId: this.#options.nodeId,
      draining: this.#options.isDraining(),
      receivers: this.#options.receivers?.(),
      groups: this.#settleHandOvers(groups),
      unreachable,
      after: this.#after,
    });
    let attempts = 0;
    for (const transfer of plan) {
      // A node that became unreachable in this round is not asked about every other group as well.
      if (this.#unreachable().has(transfer.to) && !unreachable.has(transfer.to)) continue;
      if (++attempts > ATTEMPTS_MAX) return;
      this.#after = transfer.group;
      const outcome = await this.#ask(transfer);
      if (outcome === 'declined') this.#refused(transfer.to);
      if (outcome !== 'started') continue;
      this.transfers++;
      this.#handOvers.set(transfer.group, { to: transfer.to, sinceTick: this.#tick });
      return;
    }
  }

  /** Undefined when a shard is busy or stopping. */
  async #askGroups(): Promise<BalancedGroup[] | undefined> {
    const status = await askNodeStatus(this.#options.gateway);
    if ('code' in status) return undefined;
    return status.raftGroups.map((group) => ({
      id: group.raft_group_id,
      leader: group.leader,
      voters: group.voter_ids,
      coldFailing: group.cold_flush_failing === true,
      stalled: group.stalled === true,
      addresses: group.member_addresses,
    }));
  }

  /** The groups as they will be once started hand-overs take effect; one that did not counts against its receiver. */
  #settleHandOvers(groups: readonly BalancedGroup[]): BalancedGroup[] {
    const { nodeId } = this.#options;
    return groups.map((group) => {
      const handOver = this.#handOvers.get(group.id);
      if (handOver === undefined) return group;
      const { to, sinceTick } = handOver;
      if (group.leader === to) {
        this.#refusals.delete(to);
        this.#options.onTransfer({ group: group.id, to }, 'done');
      } else if (this.#tick - sinceTick < HAND_OVER_TICKS) return { ...group, leader: to };
      else if (group.leader === nodeId) {
        this.#refused(to);
        this.#options.onTransfer({ group: group.id, to }, 'failed');
      }
      this.#handOvers.delete(group.id);
      return group;
    });
  }

  async #ask({ group, to }: Transfer): Promise<Outcome> {
    const answer = await callGroup(this.#options.gateway, QUERIES.admin, group, { call: 'transfer', node: to });
    const outcome = answer.code === 'OK' ? answer.result.outcome : 'failed';
    if (outcome === 'done') return 'started';
    return outcome === 'declined' ? 'declined' : 'impossible';
  }

  #refused(node: number): void {
    const refusals = this.#refusals.get(node) ?? { inARow: 0, pausedUntilTick: 0 };
    refusals.inARow++;
    if (refusals.inARow >= REFUSALS_MAX) refusals.pausedUntilTick = this.#tick + PAUSE_TICKS;
    this.#refusals.set(node, refusals);
  }

  #unreachable(): ReadonlySet<number> {
    const nodes = [...this.#refusals].filter(([, { pausedUntilTick }]) => pausedUntilTick > this.#tick);
    return new Set(nodes.map(([node]) => node));
  }
}
