/** Stage 3: the features' services on the main thread, between the planes and the gateway. */
import { type RunningBackups, openBackups } from '../backup/backups.ts';
import { gracesOf } from '../cold/service/start.ts';
import { type ForkService, openForks } from '../forks/service/fork-service.ts';
import { QuotaGate } from '../gateway/quota-gate.ts';
import { Governance } from '../placement/governance.ts';
import { Subscriptions } from '../subscriptions/service/subscriptions.ts';
import type { NodeCore, CoreOptions } from './core.ts';
import { clusterOf } from './cluster-data.ts';

export interface Services {
  readonly governance: Governance;
  /** Writes of clients pass through it. */
  readonly quotas: QuotaGate;
  readonly forks: ForkService;
  readonly subscriptions: Subscriptions;
  readonly backups: RunningBackups;
  /** The planes are open. */
  start(): void;
  /** No new work; accepted requests may still use them. */
  stop(): void;
  /** Closes the services; called when no more requests come. */
  close(): Promise<void>;
}

export function openServices(options: CoreOptions, core: NodeCore): Services {
  const { config, host, claim } = options;
  const { layout } = claim;
  const { runtime, log } = host;
  const { gateway, shards, membership, cold, drainMark } = core;
  const governance = new Governance({
    config,
    nodeId: layout.nodeId,
    gateway,
    shed: drainMark,
    reachesStore: cold === undefined ? undefined : async () => (await cold.service.ask({ op: 'probe' })).ok,
    logger: log.logger,
    runtime,
  });
  const quotas = new QuotaGate(
    gateway,
    () => runtime.monotonicMs(),
    (ms, run) => void runtime.setTimer(ms, run),
  );
  const forks = openForks(gateway, quotas, runtime);
  const subscriptions = openSubscriptions(options, core, governance);
  const backups = openBackups({
    gateway,
    requests: () => gateway.counters.requests,
    directory: config.storage.dataDir,
    shardDirectories: shards.directories,
    readCold: cold && ((refs) => cold.service.run({ op: 'get', refs })),
    coldGraces: gracesOf(config.storage.cold),
    membership,
    log: log.logger('backup'),
    runtime,
  });
  return {
    governance,
    quotas,
    forks,
    subscriptions,
    backups,
    start: () => {
      if (clusterOf(config) !== undefined) governance.start();
      for (const service of [forks, subscriptions]) service.start();
    },
    stop: () => {
      for (const service of [governance, forks, subscriptions]) service.stop();
      backups.stopping();
    },
    close: async () => {
      subscriptions.close();
      await backups.stop();
    },
  };
}

function openSubscriptions(
  { config, host, claim }: CoreOptions,
  { gateway }: NodeCore,
  governance: Governance,
): Subscriptions {
  const leaderOf = (group: number): number | null | undefined =>
    governance.balancer.groups.find(({ id }) => id === group)?.leader;
  return new Subscriptions({
    gateway,
    // A single node leads everything.
    leads: (group) =>
      config.subscriptions.deliver && (clusterOf(config) === undefined || leaderOf(group) === claim.layout.nodeId),
    rules: { enabled: config.subscriptions.webhooks, allowLocal: config.subscriptions.localWebhooks },
    publicUrl: config.subscriptions.publicUrl,
    signingKey: config.subscriptions.signingKey,
    log: host.log.logger('subscriptions'),
    runtime: host.runtime,
  });
}
