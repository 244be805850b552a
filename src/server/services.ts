/** Stage 3: the features' services on the main thread, between the planes and the gateway. */
import { type RunningBackups, openBackups } from '../backup/backups.ts';
import { gracesOf } from '../cold/service/start.ts';
import type { Config } from '../config/config.ts';
import { type ForkService, openForks } from '../forks/service/fork-service.ts';
import { QuotaGate } from '../gateway/quota-gate.ts';
import { createLogger } from '../logging/logger.ts';
import { Governance } from '../placement/governance.ts';
import { Subscriptions } from '../subscriptions/service/subscriptions.ts';
import type { Claim } from './claim.ts';
import type { Core } from './core.ts';
import { PROCESS_RUNTIME as runtime } from './runtime.ts';
import { clusterOf } from './shards.ts';

export interface Services {
  readonly governance: Governance;
  /** Writes of clients pass through it. */
  readonly quotas: QuotaGate;
  readonly forks: ForkService;
  readonly subscriptions: Subscriptions;
  readonly backups: RunningBackups;
}

export function openServices(config: Config, { layout }: Claim, core: Core): Services {
  const { gateway, shards, membership, cold, drainMark } = core;
  const governance = new Governance({
    config,
    nodeId: layout.nodeId,
    gateway,
    shed: drainMark,
    reachesStore: cold === undefined ? undefined : () => cold.service.reaches(),
    runtime,
  });
  const quotas = new QuotaGate(
    gateway,
    () => runtime.monotonicMs(),
    (ms, run) => void runtime.setTimer(ms, run),
  );
  const forks = openForks(quotas, runtime);
  const subscriptions = openSubscriptions(config, layout.nodeId, core, governance);
  const backups = openBackups({
    gateway,
    requests: () => gateway.counters.requests,
    directory: config.storage.dataDir,
    shardDirectories: shards.directories,
    readCold: cold?.service.read.bind(cold.service),
    coldGraces: gracesOf(config.storage.cold),
    membership,
    log: createLogger('backup'),
    runtime,
  });
  return { governance, quotas, forks, subscriptions, backups };
}

function openSubscriptions(config: Config, nodeId: number, { gateway }: Core, governance: Governance): Subscriptions {
  const leaderOf = (group: number): number | null | undefined =>
    governance.balancer.groups.find(({ id }) => id === group)?.leader;
  return new Subscriptions({
    gateway,
    // A single node leads everything.
    leads: (group) => config.subscriptions.deliver && (clusterOf(config) === undefined || leaderOf(group) === nodeId),
    rules: { enabled: config.subscriptions.webhooks, allowLocal: config.subscriptions.localWebhooks },
    publicUrl: config.subscriptions.publicUrl,
    signingKey: config.subscriptions.signingKey,
    log: createLogger('subscriptions'),
    runtime,
  });
}

/** The planes are open. */
export function startServices(config: Config, { governance, forks, subscriptions }: Services): void {
  if (clusterOf(config) !== undefined) governance.start();
  for (const service of [forks, subscriptions]) service.start();
}

/** No new work; accepted requests may still use them. */
export function stopServices({ governance, forks, subscriptions }: Services): void {
  for (const service of [governance, forks, subscriptions]) service.stop();
}
