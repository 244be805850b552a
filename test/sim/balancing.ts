/** The plan of src/placement/balancer.ts, carried out with the same frames on simulated time. */
import type { RaftGroup } from '../../src/protocol/queries/summaries.ts';
import { type BalancedGroup, type Transfer, planTransfers } from '../../src/placement/balancer.ts';
import type { SimNode } from './node.ts';
import { adminRequest, statusRequest } from './requests.ts';
import type { World } from './world.ts';
import { QUERIES } from '../../src/protocol/operations.ts';

const TICK_MS = 1000;

export class Balancing {
  readonly counts = { balanced: 0 };
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  start(): void {
    if (!this.#world.options.balanced) return;
    for (const node of this.#world.nodes) this.#later(node);
  }

  #later(node: SimNode): void {
    this.#world.queue.after(TICK_MS, () => {
      node.process?.request(statusRequest(), false, (reply) => {
        if (reply?.body !== undefined) this.#plan(node, QUERIES.status.result.read(reply).raft_groups ?? []);
      });
      this.#later(node);
    });
  }

  #plan(node: SimNode, raftGroups: readonly RaftGroup[]): void {
    const groups: BalancedGroup[] = raftGroups.map(({ raft_group_id: id, leader, voter_ids: voters }) => ({
      id,
      leader,
      voters,
    }));
    const plan = planTransfers({ nodeId: node.id, draining: node.draining, groups, unreachable: new Set(), after: -1 });
    this.#ask(node, plan, 0);
  }

  /** One transfer per tick: the first that is accepted. */
  #ask(node: SimNode, plan: readonly Transfer[], at: number): void {
    const transfer = plan[at];
    if (transfer === undefined) return;
    node.process?.request(adminRequest(transfer.group, { call: 'transfer', node: transfer.to }), false, (reply) => {
      if (reply?.code === 0 && QUERIES.admin.result.read(reply).outcome === 'done') this.counts.balanced++;
      else this.#ask(node, plan, at + 1);
    });
  }
}
