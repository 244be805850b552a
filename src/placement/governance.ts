/** Controls this node's leaderships apart from elections: the balancer and the gates, with their logs. */
import { type Address, parseAddress } from '../base/address.ts';
import type { Runtime } from '../base/runtime.ts';
import type { Config } from '../config/config.ts';
import { ClusterProbe } from '../peer/probe.ts';
import { PeerTls, type PeerTlsSettings } from '../peer/tls.ts';
import type { ShardGateway } from '../ports.ts';
import { Balancer, type BalancedGroup } from './balancer.ts';
import { ColdGate } from './cold-gate.ts';
import { EgressGate, egressNews } from './egress-gate.ts';
import type { OpenLogger } from '../logging/logger.ts';
import type { ShedState } from './shed-state.ts';
import { SHED_COLD, reasonsToLeave } from './state/shed.ts';

export interface GovernanceOptions {
  readonly config: Config;
  readonly nodeId: number;
  readonly gateway: ShardGateway;
  readonly shed: ShedState;
  /** Undefined without a cold store. */
  readonly reachesStore: (() => Promise<boolean>) | undefined;
  readonly logger: OpenLogger;
  readonly runtime: Runtime;
}

export class Governance {
  readonly balancer: Balancer;
  readonly gate: EgressGate;
  /** Is told the groups as each round sees them. */
  onGroups: (groups: readonly BalancedGroup[]) => void = () => undefined;
  readonly #probe: ClusterProbe;
  readonly #isGateOn: boolean;
  readonly #tls: PeerTls;
  /** Undefined: no cold store, or not wanted. */
  readonly #cold: { readonly gate: ColdGate; readonly probe: ClusterProbe } | undefined;

  constructor(options: GovernanceOptions) {
    const { config, nodeId, shed, reachesStore, logger, runtime } = options;
    const { intervalMs, sizeBytes, timeoutMs, unhealthyTicks, healTicks } = config.clusterProbe;
    const tls = new PeerTls(config.cluster.name, nodeId, config.cluster.tls);
    const probe = new ClusterProbe({ runtime, sizeBytes, timeoutMs, tls });
    this.#tls = tls;
    const addresses = new Map(config.raft.peers.map((peer) => [peer.nodeId, peer.address]));
    const balancer = makeBalancer(
      options,
      (groups) => this.onGroups(groups),
      () => this.#cold?.gate.receivers,
    );
    const addressOf = (node: number): Address | undefined =>
      addresses.get(node) ?? joinedAddress(balancer.groups, node);
    const log = logger('egress');
    this.#probe = probe;
    this.#isGateOn = intervalMs > 0;
    this.balancer = balancer;
    this.gate = new EgressGate({
      runtime,
      nodeId,
      intervalMs,
      unhealthyTicks,
      healTicks,
      groups: () => balancer.groups,
      probe: (node) => {
        const address = addressOf(node);
        return address === undefined ? Promise.resolve('unknown') : probe.probe(node, address);
      },
      apply: (egress) => shed.setEgress(egress),
      onChange: (now, unreached, before) => {
        for (const { level, text } of egressNews(before, now)) log[level]({ unreached }, text);
      },
      onError: (error) => log.error({ err: error }, 'a round failed; the next one follows'),
    });
    if (reachesStore !== undefined && config.coldHealth.intervalMs > 0) {
      this.#cold = makeColdGate(options, { reachesStore, addressOf, tls, groups: () => balancer.groups });
    }
  }

  /** Not for a single node, which has no node to hand over to. */
  start(): void {
    this.balancer.start();
    if (this.#isGateOn) this.gate.start();
    this.#cold?.gate.start();
  }

  stop(): void {
    this.balancer.stop();
    this.gate.stop();
    this.#probe.close();
    this.#cold?.gate.stop();
    this.#cold?.probe.close();
  }

  /** For new probes. */
  changeTls(settings: PeerTlsSettings | undefined): void {
    this.#tls.change(settings);
  }

  metrics(): Record<string, unknown> {
    const { ticks, badTicks, trips } = this.gate.counters;
    return {
      balancer_transfers: this.balancer.transfers,
      cluster_probe_ticks: ticks,
      cluster_probe_bad_ticks: badTicks,
      cluster_probe_trips: trips,
      cold_health_bad_ticks: this.#cold?.gate.counters.badTicks ?? 0,
      cold_health_trips: this.#cold?.gate.counters.trips ?? 0,
    };
  }
}

/** Undefined: this node does not know how to reach it. */
function joinedAddress(groups: readonly BalancedGroup[], node: number): Address | undefined {
  return parseAddress(groups.find((group) => group.addresses?.[node] !== undefined)?.addresses?.[node]);
}

/** A slower store is not one to give groups to; the balancer asks again. */
const COLD_PROBE_TIMEOUT_MS = 5000;

interface ColdGateParts {
  readonly reachesStore: () => Promise<boolean>;
  readonly addressOf: (node: number) => Address | undefined;
  readonly tls: PeerTls;
  readonly groups: () => readonly BalancedGroup[];
}

function makeColdGate(
  { config, nodeId, shed, logger, runtime }: GovernanceOptions,
  { reachesStore, addressOf, tls, groups }: ColdGateParts,
): { gate: ColdGate; probe: ClusterProbe } {
  const log = logger('cold');
  const probe = new ClusterProbe({
    runtime,
    sizeBytes: 0,
    timeoutMs: COLD_PROBE_TIMEOUT_MS,
    tls,
    path: '/__svc/cold-probe',
  });
  const gate = new ColdGate({
    ...config.coldHealth,
    runtime,
    nodeId,
    groups,
    reaches: reachesStore,
    otherReaches: async (node) => {
      const address = addressOf(node);
      return address !== undefined && (await probe.probe(node, address)) === 'reached';
    },
    apply: (isCut) => shed.setColdCut(isCut),
    onChange: (isCut, receivers) => {
      if (isCut)
        log.warn({ receivers }, 'this node does not reach the cold store: it gives its leaderships to those that do');
      else log.info({}, 'the cold store can be reached again: this node takes leaderships');
    },
    onError: (error) => log.error({ err: error }, 'a look at the way to the cold store failed; the next one follows'),
  });
  return { gate, probe };
}

function makeBalancer(
  { nodeId, gateway, shed, logger, runtime }: GovernanceOptions,
  seen: (groups: readonly BalancedGroup[]) => void,
  healthy: () => ReadonlySet<number> | undefined,
): Balancer {
  const log = logger('balancer');
  let stalled: readonly number[] = [];
  return new Balancer({
    runtime,
    nodeId,
    gateway,
    isDraining: () => reasonsToLeave(shed.bits) !== 0,
    onGroups: (groups) => {
      seen(groups);
      const now = groups.filter((group) => group.stalled === true).map(({ id }) => id);
      const fresh = now.filter((id) => !stalled.includes(id));
      if (fresh.length > 0)
        log.warn({ groups: fresh }, 'leadership given up: followers answer, but nothing was committed for seconds');
      stalled = now;
      return shed.setStalled(now.length > 0);
    },
    // A node with another reason not to lead gives to any node.
    receivers: () => (reasonsToLeave(shed.bits) === SHED_COLD ? healthy() : undefined),
    onTransfer: (transfer, outcome) => {
      const level = reasonsToLeave(shed.bits) !== 0 ? 'info' : 'debug';
      log[level](transfer, outcome === 'done' ? 'leadership handed over' : 'a leadership was not taken over in time');
    },
    onError: (error) => log.error({ err: error }, 'a round failed; the next one follows'),
  });
}
