/** The server process: configuration, shards, HTTP planes, greeting, and a graceful end. */
import process from 'node:process';
import { doorWarnings } from '../config/doors.ts';
import { ConfigError } from '../config/error.ts';
import type { Config } from '../config/config.ts';
import { helpOrVersion, loadConfig } from '../config/load.ts';
import { formatAddress } from '../base/address.ts';
import { VERSION } from '../config/version.ts';
import { REQUEST_RING_BYTES } from '../base/limits.ts';
import type { HttpContext } from '../http/context.ts';
import { ListenError } from '../http/listener.ts';
import { type Planes, createPlanes } from '../http/server.ts';
import { HttpLibraryError, loadUws } from '../http/uws.ts';
import { describeShed } from '../placement/state/shed.ts';
import { HttpCounters } from '../metrics/http-metrics.ts';
import { type RunningBackups, openBackups } from '../backup/backups.ts';
import { type ColdStore, NO_COLD_STORE_METRICS, gracesOf, startColdStore } from '../cold/service/start.ts';
import { type Directory, type Layout, completeDataDir, isVolatile, lockDataDir, openDataDir } from './data-dir.ts';
import { Gateway } from '../gateway/gateway.ts';
import { ConditionGate } from '../gateway/condition-gate.ts';
import { QuotaGate } from '../gateway/quota-gate.ts';
import { type ForkService, openForks } from '../forks/service/fork-service.ts';
import { makePrivate } from './private-files.ts';
import { Governance } from '../placement/governance.ts';
import { greeting } from './greeting.ts';
import { collectSeldom } from './heap.ts';
import { type Logger, createLogger } from '../logging/logger.ts';
import { Membership } from './membership.ts';
import { type ClusterData, Shards } from './shards.ts';
import { Reloads } from './reload.ts';
import { openConnections } from './file-limit.ts';
import { ShedState, readDrainMark } from '../placement/shed-state.ts';
import { Subscriptions } from '../subscriptions/service/subscriptions.ts';
import { httpSettings } from './http-settings.ts';

const EXIT_FAILURE = 1;
const EXIT_CONFIG = 2;
/** Accepted requests get this long to be answered after SIGTERM. */
const STOP_GRACE_MS = 10_000;
const SAME_SIGNAL_MS = 1000;

async function main(argv: readonly string[]): Promise<void> {
  const text = helpOrVersion(argv);
  if (text !== undefined) {
    process.stdout.write(text);
    return;
  }
  collectSeldom();
  const config = loadConfig(argv);
  const log = createLogger('server');
  const reloads = new Reloads(argv, config, log);
  endOnBug(log);
  const startedMs = performance.now();
  for (const sentence of doorWarnings(config)) log.warn(sentence);
  const layout = await claimDataDir(config, log);
  const onFailure = endWith(log);
  const membership = new Membership(config.storage.dataDir, layout, log, onFailure);
  const onDisk = !isVolatile(config.storage.dataDir);
  if (!onDisk)
    log.warn({ path: config.storage.dataDir }, 'the data directory is in memory: a restart of this host loses it');
  const wasDraining = readDrainMark(config.storage.dataDir);
  const cold = await startColdStore(config, layout.shardCount, createLogger('cold'));
  const shards = new Shards({
    count: layout.shardCount,
    groupCount: layout.groupCount,
    nodeId: layout.nodeId,
    dataDir: config.storage.dataDir,
    cluster: clusterOf(config),
    membership,
    draining: wasDraining,
    cold,
    uncommittedBytesMax: config.raft.maxUncommittedBytesPerGroup,
    onFailure,
  });
  const gateway = new Gateway(layout.groupCount, shards.links, (error) =>
    log.error({ err: error }, 'an answer could not be delivered'),
  );
  cold?.serve(gateway);
  await shards.ready();
  completeDataDir(config.storage.dataDir, { single: clusterOf(config) === undefined });
  const drainMark = new ShedState(gateway, config.storage.dataDir, wasDraining);
  // Before traffic. Shards already start in no-lead mode.
  await drainMark.apply();
  if (wasDraining)
    log.warn('this node is marked for maintenance: it gives its leaderships away until the mark is lifted');
  const governance = new Governance(
    config,
    layout.nodeId,
    gateway,
    drainMark,
    cold === undefined ? undefined : () => cold.service.reaches(),
  );
  const writes = openWrites(gateway);
  const subscriptions = openSubscriptions(config, layout.nodeId, gateway, governance);
  const backups = openNodeBackups({ config, membership, gateway, cold, shards });
  const services = { writes, subscriptions, shards, governance, cold, backups };
  const parts: Parts = { config, membership, gateway, drainMark, log, ...services };
  const planes = compose(parts);
  await planes.listenClient(config.server.listen.host, config.server.listen.port);
  await planes.listenAdmin(config.server.adminListen.host, config.server.adminListen.port);
  const startMs = performance.now() - startedMs;
  log.info({ ms: Math.round(startMs) }, 'listening');
  process.stdout.write(greeting(config, { shardCount: layout.shardCount, startMs, onDisk }));
  if (clusterOf(config) !== undefined) governance.start();
  for (const service of [writes.forks, subscriptions]) service.start();
  reloads.begin(planes);
  onSignal(() => stop(planes, parts, reloads));
}

function endWith(log: Logger): (error: Error) => void {
  return (error) => {
    log.fatal({ err: error }, 'a shard failed; the process ends, acknowledged data is on disk');
    process.exit(EXIT_FAILURE);
  };
}

/** Also receives unhandled rejections. The node does not continue in doubtful state. */
function endOnBug(log: Logger): void {
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'a bug; the process ends, acknowledged data is on disk');
    process.exit(EXIT_FAILURE);
  });
}

/** Nothing is written on a host that cannot serve, or into a directory that another process uses. */
async function claimDataDir(config: Config, log: Logger): Promise<Layout & Directory> {
  const { raft, runtime, storage } = config;
  loadUws();
  const { nodeId, groupCount } = raft;
  const single = clusterOf(config) === undefined;
  const shardCount = Math.min(runtime.coreCount, groupCount);
  await lockDataDir(storage.dataDir);
  makePrivate(storage.dataDir, log);
  const layout = openDataDir(storage.dataDir, { nodeId, groupCount, shardCount, single });
  if (layout.shardCount !== shardCount) {
    log.warn(
      { asked: shardCount, used: layout.shardCount },
      'the data directory was laid out for another number of cores, which stays in force',
    );
  }
  return layout;
}

/** The gateways that clients' writes pass. */
function openWrites(gateway: Gateway): Parts['writes'] {
  const quotas = new QuotaGate(
    gateway,
    () => performance.now(),
    (ms, run) => void setTimeout(run, ms).unref(),
  );
  return { quotas, forks: openForks(quotas) };
}

function openNodeBackups({
  config,
  membership,
  gateway,
  cold,
  shards,
}: Pick<Parts, 'config' | 'membership' | 'gateway' | 'cold' | 'shards'>): RunningBackups {
  return openBackups({
    gateway,
    requests: () => gateway.counters.requests,
    directory: config.storage.dataDir,
    shardDirectories: shards.directories,
    readCold: cold?.service.read.bind(cold.service),
    coldGraces: gracesOf(config.storage.cold),
    membership,
    log: createLogger('backup'),
  });
}

function openSubscriptions(config: Config, nodeId: number, gateway: Gateway, governance: Governance): Subscriptions {
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
    nowMs: () => Date.now(),
    clockMs: () => performance.now(),
    random: () => Math.random(),
  });
}

/** Undefined for a single node. */
function clusterOf({ raft, cluster, server }: Config): ClusterData | undefined {
  if (raft.peers.length < 2 || server.clusterListen === undefined) return undefined;
  return {
    name: cluster.name,
    secret: cluster.secret ?? '',
    listen: server.clusterListen,
    peers: raft.peers,
    initMembership: raft.initMembership,
  };
}

interface Parts {
  readonly config: Config;
  readonly membership: Membership;
  readonly gateway: Gateway;
  readonly writes: { readonly quotas: QuotaGate; readonly forks: ForkService };
  readonly shards: Shards;
  readonly drainMark: ShedState;
  readonly governance: Governance;
  readonly subscriptions: Subscriptions;
  readonly cold: ColdStore | undefined;
  readonly backups: RunningBackups;
  readonly log: Logger;
}

function whoIs({ config, membership }: Parts): Readonly<Record<string, unknown>> {
  return { node_id: config.raft.nodeId, cluster_id: membership.clusterId, version: VERSION };
}

function compose(parts: Parts): Planes {
  const { config, membership, gateway, writes, subscriptions, shards, drainMark, governance, cold, backups, log } =
    parts;
  const { quotas, forks } = writes;
  const metrics = new HttpCounters();
  const http = createLogger('http');
  const ctx: HttpContext = {
    // A cluster gets its identity when all of its nodes understand it; conditions follow the same rule.
    gateway: new ConditionGate(quotas, () => membership.clusterId !== null),
    forks,
    metrics,
    settings: httpSettings(config),
    monotonicMs: () => performance.now(),
    connections: openConnections(config, http),
    logError: (error, where) => http.error({ err: error, where }, 'handler failed'),
  };
  const source = {
    mailboxDepths: () => shards.depths(),
    mailboxCapacities: () => shards.depths().map(() => REQUEST_RING_BYTES),
    http: () => ({ ...metrics.snapshot() }),
    extra: () => ({
      ...whoIs(parts),
      uptime_ms: Math.round(process.uptime() * 1000),
      mailbox_used_bytes: shards.usedBytes(),
      mailbox_full_events: gateway.counters.refused,
      pending_requests: gateway.pending,
      forks_in_making: forks.making,
      forks_undoing: forks.undoing,
      fork_bytes_in_making: forks.bytesInMaking,
      quota_questions: quotas.counters.asked,
      quota_refusals: quotas.counters.refused,
      forks_made: forks.counters.made,
      forks_failed: forks.counters.failed,
      fork_ends_told: forks.counters.told,
      fork_pins_lost: forks.counters.lost,
      tail_events: gateway.counters.tailEvents,
      wal_backend: 'disk',
      leadership_shed: describeShed(drainMark.bits),
      ...governance.metrics(),
      ...subscriptions.metrics(),
      ...(cold?.metrics() ?? NO_COLD_STORE_METRICS),
    }),
  };
  log.debug({ shards: gateway.shardCount, groups: gateway.groupCount }, 'composed');
  const peers = new Map(config.raft.peers.map(({ nodeId, address }) => [nodeId, formatAddress(address)]));
  return createPlanes({
    ctx,
    source,
    operations: {
      drainMark,
      hasClusterPlane: clusterOf(config) !== undefined,
      peers,
      coldObjects: cold?.service,
      backups,
      webhookKeys: subscriptions.webhookKeys,
    },
    control: subscriptions.api,
  });
}

/** First signal: stop cleanly. A later one: immediately. Ctrl-C under npm arrives twice at the same moment. */
function onSignal(run: () => Promise<void>): void {
  let stoppingSinceMs = Infinity;
  const handle = (): void => {
    if (performance.now() - stoppingSinceMs > SAME_SIGNAL_MS) process.exit(EXIT_FAILURE);
    if (stoppingSinceMs !== Infinity) return;
    stoppingSinceMs = performance.now();
    run().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`millrace: stop failed: ${String(error)}\n`);
        process.exit(EXIT_FAILURE);
      },
    );
  };
  process.on('SIGTERM', handle);
  process.on('SIGINT', handle);
}

async function stop(planes: Planes, parts: Parts, reloads: Reloads): Promise<void> {
  reloads.end();
  const { shards, gateway, governance, writes, subscriptions, cold, backups, log } = parts;
  for (const service of [governance, writes.forks, subscriptions]) service.stop();
  log.info({ pending: gateway.pending }, 'stopping: no new requests, open ones are finished');
  await planes.close(STOP_GRACE_MS);
  subscriptions.close();
  await backups.stop();
  await shards.stop();
  gateway.close();
  await cold?.close();
  log.info('stopped');
}

// For everything that this process and its threads create: directories 0700, files 0600.
process.umask(0o077);
// The reader of the greeting is gone, or its disk is full: keep serving.
process.stdout.on('error', () => undefined);
// Without a listener the signal would end the process; the reload handler is installed a moment later.
process.on('SIGHUP', () => undefined);
try {
  await main(process.argv.slice(2));
} catch (error) {
  const known = [ConfigError, ListenError, HttpLibraryError].some((kind) => error instanceof kind);
  process.stderr.write(`millrace: ${known ? (error as Error).message : String((error as Error).stack ?? error)}\n`);
  process.exit(known ? EXIT_CONFIG : EXIT_FAILURE);
}
