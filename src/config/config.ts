/** The configuration as the rest of the code sees it, and the rules that span several options. */
import { createPrivateKey } from 'node:crypto';
import { resolve } from 'node:path';
import { coldOf } from './cold.ts';
import { ConfigError } from './error.ts';
import { refuse } from './kinds.ts';
import type { OptionKey, OptionValues } from './options.ts';
import { asksForToken, checkDoors } from './doors.ts';
import type { RightsKind, TokenList } from '../base/scopes.ts';
import type { NodeKey } from '../base/jwt-key.ts';
import { type NodeLimits, NO_LIMITS } from '../base/use-limits.ts';
import { readLimitsFile } from './limits-file.ts';
import { type JwtConfig, jwtOf } from './jwt.ts';
import { readText } from './text-file.ts';
import { clusterTlsOf, tlsOf } from './tls.ts';
import { signingKeysOf } from './signing-keys.ts';
import { readTokensFile } from './tokens-file.ts';
import { type Address, formatAddress } from '../base/address.ts';

/** Plain data: it is posted to the shard threads as it is. `options.ts` says what each value means. */
export type Config = Readonly<ReturnType<typeof placesOf>>;

export type TracingConfig = NonNullable<ReturnType<typeof tracingOf>>;

/** Gives every option its place, then checks what no single option can know. */
export function toConfig(values: OptionValues): Config {
  const config = placesOf(values);
  checkListeners(config);
  checkDoors(config);
  checkPeers(config);
  checkReadCache(config);
  return config;
}

function placesOf(values: OptionValues) {
  const clientToken = secretOf(values, 'http.client_token', 'http.client_token_file');
  const tokens = scopedTokensOf(values);
  return {
    server: {
      listen: values['server.listen'],
      adminListen: values['server.admin_listen'],
      clusterListen: values['server.cluster_listen'],
      hosts: values['server.hosts'],
      adminHosts: values['server.admin_hosts'],
      publicUrl: values['server.public_url'],
      allowUnauthenticated: values['server.allow_unauthenticated'],
      inflightBodyBytes: values['server.http_inflight_body_size'],
      maxConnections: values['server.max_connections'],
      maxConnectionsPerAddress: values['server.max_connections_per_address'],
      tls: tlsOf(values),
    },
    storage: { dataDir: resolve(values['storage.data_dir']), cold: coldOf(values) },
    runtime: {
      coreCount: values['runtime.core_count'],
      liveReadMaxWaitersPerCore: values['runtime.live_read_max_waiters_per_core'],
    },
    raft: {
      nodeId: values['raft.node_id'],
      groupCount: values['raft.group_count'],
      initMembership: values['raft.init_membership'],
      maxUncommittedBytesPerGroup: values['raft.max_uncommitted_size_per_group'],
      peers: values['raft.peers'],
    },
    cluster: {
      name: values['cluster.name'],
      secret: secretOf(values, 'cluster.secret', 'cluster.secret_file'),
      tls: clusterTlsOf(values),
    },
    clusterProbe: {
      intervalMs: values['governance.cluster_probe.interval'],
      sizeBytes: values['governance.cluster_probe.probe_size'],
      timeoutMs: values['governance.cluster_probe.timeout'],
      unhealthyTicks: values['governance.cluster_probe.unhealthy_ticks'],
      healTicks: values['governance.cluster_probe.heal_ticks'],
    },
    coldHealth: {
      intervalMs: values['governance.cold_health.interval'],
      unhealthyTicks: values['governance.cold_health.unhealthy_ticks'],
      healTicks: values['governance.cold_health.heal_ticks'],
    },
    http: {
      longPollTimeoutMs: values['http.long_poll_timeout'],
      sseKeepaliveMs: values['http.sse_keepalive'],
      sseLifetimeMs: values['http.sse_lifetime'],
      corsOrigins: values['http.cors_origins'] ?? (asksForToken({ clientToken, tokens }) ? ['*'] : ['loopback']),
      readCache: values['http.read_cache'],
      clientToken,
      tokens,
      adminToken: secretOf(values, 'http.admin_token', 'http.admin_token_file'),
      adminTokens: listOf(values, 'http.admin_tokens_file', 'role'),
      limits: limitsOf(values),
      trustedProxies: values['http.trusted_proxies'],
    },
    audit: { file: values['audit.file'] },
    subscriptions: {
      publicUrl: values['subscriptions.public_url'],
      signingKey: signingKeyOf(values),
      deliver: values['subscriptions.deliver'],
      webhooks: values['subscriptions.webhooks'],
      localWebhooks: values['subscriptions.local_webhooks'],
    },
    tracing: tracingOf(values),
  };
}

/** Tokens with scopes: of a file, signed by an issuer, and signed by the nodes. */
export interface ScopedTokens {
  readonly list: TokenList;
  readonly jwt: JwtConfig | undefined;
  /** The first one signs; none: nodes sign no tokens. */
  readonly signingKeys: readonly NodeKey[];
}

function scopedTokensOf(values: OptionValues): ScopedTokens | undefined {
  const jwt = jwtOf(values);
  const signingKeys = signingKeysOf(values);
  const list = listOf(values, 'http.tokens_file', 'scopes');
  if (list !== undefined) return { list, jwt, signingKeys };
  if (jwt === undefined && signingKeys.length === 0) return undefined;
  return { list: { tokens: [], revoked: [] }, jwt, signingKeys };
}

function listOf(
  values: OptionValues,
  key: 'http.tokens_file' | 'http.admin_tokens_file',
  kind: RightsKind,
): TokenList | undefined {
  const path = values[key];
  return path === undefined ? undefined : readTokensFile(path, `${key} = ${JSON.stringify(path)}`, kind);
}

function limitsOf(values: OptionValues): NodeLimits {
  const path = values['http.limits_file'];
  return path === undefined ? NO_LIMITS : readLimitsFile(path, `http.limits_file = ${JSON.stringify(path)}`);
}

function tracingOf(values: OptionValues) {
  const endpoint = values['tracing.otlp_endpoint'];
  // Read in any case: a file that is not there is a mistake.
  const token = secretOf(values, 'tracing.otlp_token', 'tracing.otlp_token_file');
  const sampleRatio = values['tracing.sample_ratio'];
  return endpoint === undefined ? undefined : { endpoint, sampleRatio, token };
}

function signingKeyOf(values: OptionValues): string | undefined {
  const path = values['subscriptions.signing_key_file'];
  if (path === undefined) return undefined;
  const pem = readText('subscriptions.signing_key_file', path);
  try {
    if (createPrivateKey(pem).asymmetricKeyType === 'ed25519') return pem;
  } catch {
    // Said below.
  }
  throw refuse('subscriptions.signing_key_file', path, 'a PEM file with an Ed25519 private key');
}

type KeysOf<T> = { [K in OptionKey]: OptionValues[K] extends T ? K : never }[OptionKey];

function secretOf(
  values: OptionValues,
  key: KeysOf<string | undefined>,
  fileKey: KeysOf<string | undefined>,
): string | undefined {
  const path = values[fileKey];
  if (path === undefined) return values[key];
  if (values[key] !== undefined) throw new ConfigError(`${fileKey}: give either ${key} or ${fileKey}, not both`);
  // Editors and `echo` end a file with a newline that is not part of the secret.
  const secret = readText(fileKey, path).trim();
  if (!/^[!-~]+$/.test(secret))
    throw refuse(fileKey, path, 'a file with one line of visible ASCII characters without blanks');
  return secret;
}

function checkListeners({ server }: Config): void {
  const listeners: readonly (readonly [OptionKey, Address | undefined])[] = [
    ['server.listen', server.listen],
    ['server.admin_listen', server.adminListen],
    ['server.cluster_listen', server.clusterListen],
  ];
  const taken = new Map<string, OptionKey>();
  for (const [key, listen] of listeners) {
    if (listen === undefined || listen.port === 0) continue;
    const written = formatAddress(listen);
    const other = taken.get(written);
    if (other !== undefined)
      throw new ConfigError(`${key} = "${written}": ${other} listens there already; the planes need different ports`);
    taken.set(written, key);
  }
}

/** A shared cache gives what one client's token opened to every client. */
function checkReadCache({ http }: Config): void {
  if (http.readCache !== 'public' || !asksForToken(http)) return;
  const key = http.clientToken === undefined ? 'http.tokens_file or http.jwt_issuer' : 'http.client_token';
  throw new ConfigError(
    `http.read_cache = "public" with ${key}: shared caches would show what the token guards; use "private"`,
  );
}

function checkPeers({ raft, server }: Config): void {
  const ids = new Set<number>();
  for (const peer of raft.peers) {
    if (ids.has(peer.nodeId)) throw new ConfigError(`raft.peers: node ${peer.nodeId} is listed twice`);
    ids.add(peer.nodeId);
  }
  if (ids.size > 0 && !ids.has(raft.nodeId)) {
    throw new ConfigError(`raft.peers: this node is not in the list; add node_id = ${raft.nodeId} (raft.node_id)`);
  }
  if (ids.size > 1 && server.clusterListen === undefined) {
    throw refuse('server.cluster_listen', undefined, 'HOST:PORT for the links to the other nodes of raft.peers');
  }
}
