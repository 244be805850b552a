/** Stage 4: the HTTP planes over gateway and services, and the metrics that only the whole node knows. */
import { type Address, formatAddress } from '../base/address.ts';
import { toHex } from '../base/hex.ts';
import { REQUEST_RING_BYTES } from '../base/limits.ts';
import { NO_COLD_STORE_METRICS } from '../cold/service/start.ts';
import { LimitBook, type LimitSettings } from '../access/limit-book.ts';
import { Senders } from '../access/senders.ts';
import { StaticTokens } from '../access/static-tokens.ts';
import type { TokenBook } from '../access/token-book.ts';
import type { AuditEntry } from '../audit/entry.ts';
import type { TokenList } from '../base/scopes.ts';
import type { Config, ScopedTokens } from '../config/config.ts';
import type { ColdConfig } from '../config/cold.ts';
import type { ClusterTls } from '../config/tls.ts';
import { VERSION } from '../config/version.ts';
import { readConsolePage } from '../console/built-page.ts';
import type { HttpContext, HttpSettings } from '../http/context.ts';
import { type Planes, createPlanes } from '../http/server.ts';
import { MetricsHistory } from '../metrics/history.ts';
import { HttpCounters } from '../metrics/http-metrics.ts';
import { describeShed } from '../placement/state/shed.ts';
import { Sessions } from '../session/sessions.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { ClientTokens } from './client-tokens.ts';
import { openAudit } from './audit.ts';
import { CertificateWatch, LINKS_CERTIFICATE, PLANES_CERTIFICATE } from './certificate-watch.ts';
import type { NodeCore } from './core.ts';
import { openConnections } from './file-limit.ts';
import type { Host, Opened } from './host.ts';
import { VolumeWatch } from './volume-watch.ts';
import type { Services } from './services.ts';
import { clusterOf } from './cluster-data.ts';

/** Two runs of a node have the same with a probability of 2^-32. */
const RUN_BYTES = 4;

export interface NodeParts {
  readonly config: Config;
  readonly host: Host;
  readonly core: NodeCore;
  readonly services: Services;
  readonly tracing: Tracing;
}

/** The planes as a reload sees them. */
export interface ReloadedPlanes extends Pick<Planes, 'renewCertificates'> {
  changeTokens(changes: {
    readonly client: string;
    readonly admin: string;
    readonly scoped: ScopedTokens | undefined;
    readonly roles: TokenList | undefined;
  }): void;
  /** Certificates of the links between nodes, or their mode. */
  changeClusterTls(tls: ClusterTls | undefined): void;
  /** Resolves with what puts these keys of cold objects in use. Throws ConfigError for those that cannot be used. */
  tryColdKeys(keys: ColdConfig['keys']): Promise<(() => void) | undefined>;
  trustProxies(proxies: readonly string[]): void;
  /** Limits of tokens and buckets are others now. */
  changeLimits(config: Config): void;
  /** Writes what a reload has changed into the audit log. */
  tell(changes: readonly AuditEntry[]): void;
  /** The audit file may have been moved. */
  reopenAudit(): void;
}

export interface BoundPlanes {
  readonly planes: ReloadedPlanes;
  readonly client: Address;
  readonly admin: Address;
}

export async function openPlanes(node: NodeParts, opened: Opened): Promise<BoundPlanes> {
  const { config, host } = node;
  const volume = new VolumeWatch(host.runtime, config.storage.dataDir);
  const certificates = new CertificateWatch(PLANES_CERTIFICATE, host.runtime, host.log.logger('server'));
  const ofLinks = new CertificateWatch(LINKS_CERTIFICATE, host.runtime, host.log.logger('server'));
  const { tokens: scoped } = config.http;
  const changed = (): void => planes.grantsChanged();
  const known = scoped && { scoped, client: config.http.clientToken ?? '' };
  const audit = openAudit(config, host);
  opened.audit = audit;
  const tokens =
    known &&
    new ClientTokens(known, {
      ...{ runtime: host.runtime, log: host.log.logger('server'), changed },
      // A server that changes its keys all the time fills no disk.
      tell: (change) => audit.trail.changed(change),
    });
  opened.tokens = tokens;
  const { adminTokens } = config.http;
  const roles = adminTokens && new StaticTokens(adminTokens);
  const limits = new LimitBook(limitsOf(config));
  node.services.quotas.defaultQuota = config.http.limits.quota;
  const senders = new Senders(config.http.trustedProxies);
  const watched = (): object => ({
    ...{ ...volume.metrics(), ...certificates.metrics(), ...ofLinks.metrics() },
    ...{ ...tokens?.metrics(), ...audit.metrics(), ...limits.metrics() },
  });
  const planes = composePlanes(node, { tokens, roles, senders, limits, audit: audit.trail }, watched);
  opened.planes = planes;
  certificates.start(config.server.tls);
  ofLinks.start(config.cluster.tls);
  // Not awaited: a volume that hangs must not keep the planes closed.
  void volume.start();
  // Until its keys are here an issuer's tokens get 401, at which the EventSource of a page stops for good.
  await tokens?.start();
  const { listen, adminListen } = config.server;
  const client = { host: listen.host, port: await planes.listenClient(listen.host, listen.port) };
  const admin = { host: adminListen.host, port: await planes.listenAdmin(adminListen.host, adminListen.port) };
  const renewCertificates: Planes['renewCertificates'] = (files) => {
    planes.renewCertificates(files);
    certificates.renewed(files);
  };
  const changeClusterTls: ReloadedPlanes['changeClusterTls'] = (tls) => {
    node.core.shards.changeTls(tls);
    node.services.governance.changeTls(tls);
    ofLinks.renewed(tls);
  };
  const changeTokens: BoundPlanes['planes']['changeTokens'] = (changes) => {
    planes.changeTokens(changes);
    if (changes.roles !== undefined) roles?.replace(changes.roles);
    const { scoped: now, client: token } = changes;
    // They tell the planes themselves.
    if (tokens !== undefined && now !== undefined) tokens.change({ scoped: now, client: token });
    else planes.grantsChanged();
  };
  const told: Omit<ReloadedPlanes, 'changeTokens' | 'renewCertificates' | 'changeClusterTls'> = {
    tryColdKeys: async (keys) => await node.core.cold?.tryKeys(keys),
    changeLimits: (now) => {
      limits.replace(limitsOf(now));
      node.services.quotas.defaultQuota = now.http.limits.quota;
    },
    trustProxies: (proxies) => senders.trust(proxies),
    tell: (changes) => changes.forEach((change) => audit.trail.told(change)),
    reopenAudit: () => audit.reopen(),
  };
  return { planes: { changeTokens, renewCertificates, changeClusterTls, ...told }, client, admin };
}

function limitsOf({ http: { limits, tokens } }: Config): LimitSettings {
  const own = tokens?.list.tokens.flatMap(({ id, limits: one }) => (one === undefined ? [] : [[id, one] as const]));
  return { node: limits, tokens: own ?? [] };
}

/** The parts that decide who may ask, and tell of it. */
interface AccessParts extends Pick<HttpContext, 'senders' | 'audit' | 'limits'> {
  /** The client plane asks it. */
  readonly tokens: ClientTokens | undefined;
  /** The admin plane asks it. */
  readonly roles: TokenBook | undefined;
}

function composePlanes(node: NodeParts, access: AccessParts, watched: () => object): Planes {
  const { config, host, core, services, tracing } = node;
  const { runtime } = host;
  const { quotas, forks, subscriptions, backups } = services;
  const metrics = new HttpCounters();
  const http = host.log.logger('http');
  const page = readConsolePage('node');
  const ctx: HttpContext = {
    gateway: core.gateway,
    writes: quotas,
    // A cluster gets its identity when all of its nodes understand that, and conditions with it.
    understandsConditions: () => core.membership.clusterId !== null,
    forks,
    metrics,
    settings: httpSettings(config, access),
    monotonicMs: () => runtime.monotonicMs(),
    connections: openConnections(config, http, runtime),
    ...{ senders: access.senders, audit: access.audit },
    ...(access.limits === undefined ? {} : { limits: access.limits }),
    requestIdPrefix: `${config.raft.nodeId}-${toHex(runtime.randomBytes(RUN_BYTES))}`,
    ...(tracing.traces === undefined ? {} : { traces: tracing.traces }),
    // pino leaves out what is undefined.
    logError: (error, where, requestId) => http.error({ err: error, where, requestId }, 'handler failed'),
  };
  const store = core.cold?.service;
  const sessions = new Sessions();
  const { publicUrls } = core.shards;
  services.governance.onGroups = (groups) => {
    const leaders = Array<string>(config.raft.groupCount).fill('');
    for (const { id, leader } of groups) leaders[id] = publicUrls.get(leader ?? 0) ?? '';
    sessions.tellLeaders(config.server.publicUrl ?? '', leaders);
  };
  return createPlanes({
    ctx,
    operations: {
      metrics: {
        mailboxDepths: () => core.shards.depths(),
        mailboxCapacities: () => core.shards.depths().map(() => REQUEST_RING_BYTES),
        http: () => ({ ...metrics.snapshot() }),
        extra: () => ({ ...nodeMetrics(node), ...watched() }),
      },
      history: new MetricsHistory(runtime),
      ...(page === undefined ? {} : { console: page }),
      drainMark: core.drainMark,
      hasClusterPlane: clusterOf(config) !== undefined,
      peers: new Map(config.raft.peers.map(({ nodeId, address }) => [nodeId, formatAddress(address)])),
      coldObjects: store && { remove: (keys) => store.ask({ op: 'remove', keys }) },
      backups,
      webhookKeys: subscriptions.webhookKeys,
      control: subscriptions.api,
      inspection: subscriptions.inspection,
      sessions,
      ...(access.tokens?.narrowing === undefined ? {} : { narrowing: access.tokens.narrowing }),
    },
  });
}

function nodeMetrics({ config, host, core, services, tracing }: NodeParts): Readonly<Record<string, unknown>> {
  const { gateway, shards, cold, drainMark } = core;
  const { governance, quotas, forks, subscriptions, backups } = services;
  const sessions = shards.sessions();
  return {
    node_id: config.raft.nodeId,
    cluster_id: core.membership.clusterId,
    version: VERSION,
    uptime_ms: Math.round(host.runtime.monotonicMs() - host.startedMs),
    unix_ms: host.runtime.nowMs(),
    exports_finished: backups.exports.exports_finished ?? [],
    mailbox_used_bytes: shards.usedBytes(),
    mailbox_full_events: gateway.counters.refused,
    pending_requests: gateway.pending,
    peer_sessions: sessions.all,
    peer_tls_sessions: sessions.encrypted,
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
    read_cache_bytes: gateway.reads.bytes,
    read_cache_hits: gateway.reads.counters.hits,
    read_cache_hit_bytes: gateway.reads.counters.hitBytes,
    read_cache_misses: gateway.reads.counters.misses,
    wal_backend: 'disk',
    leadership_shed: describeShed(drainMark.bits),
    ...governance.metrics(),
    ...subscriptions.metrics(),
    ...tracing.metrics(),
    ...(cold?.metrics() ?? NO_COLD_STORE_METRICS),
  };
}

/** The part of the configuration that HTTP code needs. */
function httpSettings({ http, server, runtime }: Config, { tokens, roles }: AccessParts): HttpSettings {
  return {
    longPollTimeoutMs: http.longPollTimeoutMs,
    sseKeepaliveMs: http.sseKeepaliveMs,
    sseLifetimeMs: http.sseLifetimeMs,
    corsOrigins: http.corsOrigins,
    clientHosts: { listen: server.listen.host, names: server.hosts },
    adminHosts: { listen: server.adminListen.host, names: server.adminHosts },
    readCache: http.readCache,
    inflightBodyBytes: server.inflightBodyBytes,
    watchersPerCoreMax: runtime.liveReadMaxWaitersPerCore,
    clientToken: http.clientToken ?? '',
    clientTokens: tokens,
    adminToken: http.adminToken ?? '',
    adminTokens: roles,
    tls: server.tls,
  };
}
