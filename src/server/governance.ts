/** What decides on this node's leaderships besides elections: the balancer and the egress gate, with their logs. */
import { type Address, parseAddress } from '../base/address.ts';
import type { Config } from '../config/config.ts';
import { ClusterProbe } from '../peer/probe.ts';
import type { ShardGateway } from '../ports.ts';
import { Balancer, type GroupView } from './balancer.ts';
import { EgressGate } from './egress-gate.ts';
import { createLogger } from './log.ts';
import type { ShedState } from './shed-state.ts';

export class Governance {
  readonly balancer: Balancer;
  readonly gate: EgressGate;
  readonly #probe: ClusterProbe;
  readonly #isGateOn: boolean;

  constructor(config: Config, nodeId: number, gateway: ShardGateway, shed: ShedState) {
    const { intervalMs, sizeBytes, timeoutMs, unhealthyTicks, healTicks } = config.clusterProbe;
    const probe = new ClusterProbe(sizeBytes, timeoutMs);
    const addresses = new Map(config.raft.peers.map((peer) => [peer.nodeId, peer.address]));
    const balancer = makeBalancer(nodeId, gateway, shed);
    const log = createLogger('egress');
    this.#probe = probe;
    this.#isGateOn = intervalMs > 0;
    this.balancer = balancer;
    this.gate = new EgressGate({
      nodeId,
      intervalMs,
      unhealthyTicks,
      healTicks,
      groups: () => balancer.groups,
      probe: (node) => {
        const address = addresses.get(node) ?? joinedAddress(balancer.groups, node);
        return address === undefined ? Promise.resolve('unknown') : probe.probe(address);
      },
      apply: (egress) => shed.setEgress(egress),
      onChange: ({ isImpaired, mayLead }, unreached) => {
        if (!isImpaired) log.info({}, 'large messages reach a majority again: this node may lead');
        else if (mayLead) log.warn({ unreached }, 'a group has no leader: this node campaigns although it is impaired');
        else log.warn({ unreached }, 'large messages do not reach a majority: this node does not lead until they do');
      },
      onError: (error) => log.error({ err: error }, 'a round failed; the next one follows'),
    });
  }

  /** Not for a single node: it has nobody to hand over to. */
  start(): void {
    this.balancer.start();
    if (this.#isGateOn) this.gate.start();
  }

  stop(): void {
    this.balancer.stop();
    this.gate.stop();
    this.#probe.close();
  }

  metrics(): Record<string, unknown> {
    const { ticks, badTicks, trips } = this.gate.counters;
    return {
      balancer_transfers: this.balancer.transfers,
      cluster_probe_ticks: ticks,
      cluster_probe_bad_ticks: badTicks,
      cluster_probe_trips: trips,
    };
  }
}

/** Undefined: this node does not know how to reach it. */
function joinedAddress(groups: readonly GroupView[], node: number): Address | undefined {
  return parseAddress(groups.find((group) => group.addresses?.[node] !== undefined)?.addresses?.[node]);
}

function makeBalancer(nodeId: number, gateway: ShardGateway, shed: ShedState): Balancer {
  const log = createLogger('balancer');
  return new Balancer({
    nodeId,
    gateway,
    isDraining: () => shed.bits !== 0,
    onTransfer: (transfer) => log[shed.bits !== 0 ? 'info' : 'debug'](transfer, 'leadership handed over'),
    onError: (error) => log.error({ err: error }, 'a round failed; the next one follows'),
  });
}
