/**
 * The one table of options. TOML keys, flags, help, validation, defaults and the table in README.md come from it;
 * `config.ts` gives each value its place in `Config`. A key that is not here is refused.
 */
import { availableParallelism } from 'node:os';
import { BODY_BYTES_MAX } from '../base/limits.ts';
import { COLD_OPTIONS } from './cold-options.ts';
import * as kind from './kinds.ts';
import { type Defaulted, type Extra, type Option, type Peer, type PlaneName, option, optional } from './kinds.ts';
import { GIB, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS } from './values.ts';
import { type Address, parseAddress } from '../base/address.ts';

const flag = (name: string, placeholder: string): Extra => ({ flag: { name, placeholder } });
const loopback = (port: number): Address => parseAddress(`127.0.0.1:${port}`) as Address;

/** One core stays with the main thread, which does all of HTTP. */
const coreCountDefault = Math.max(1, availableParallelism() - 1);

/** More than a process can have open anyway (`fs.nr_open`). */
const CONNECTIONS_MAX = 1_000_000;

const noPeers: readonly Peer[] = [];
const noPlanes: readonly PlaneName[] = [];
const noHosts: readonly string[] = [];

export const OPTIONS = {
  'server.listen': option(
    kind.address,
    loopback(4437),
    'Client plane. Loopback only, unless set; beyond it `http.client_token_file` is required.',
    flag('listen', 'HOST:PORT'),
  ),
  'server.admin_listen': option(
    kind.address,
    loopback(4438),
    'Admin plane: metrics, usage, health, operator calls. Keep it away from clients. Beyond loopback `http.admin_token_file` is required.',
    flag('admin-listen', 'HOST:PORT'),
  ),
  'server.cluster_listen': optional(
    kind.address,
    'Node-to-node links: shard i listens on the port plus i. Beyond loopback a cluster secret is required.',
  ),
  'server.allow_unauthenticated': option(
    kind.planes,
    noPlanes,
    'Planes that may listen beyond loopback without a token: `["client", "admin"]`, because a proxy in front of them checks who asks.',
    flag('allow-unauthenticated', 'PLANES'),
  ),
  'server.hosts': option(
    kind.hosts,
    noHosts,
    'Names by which clients reach the client plane. Without a client token, on loopback, requests for other `Host`s are answered 421: they come from pages that gave their own name this address. Loopback names and the host of `server.listen` need not be listed.',
  ),
  'server.admin_hosts': option(
    kind.hosts,
    noHosts,
    'Names by which operators reach the admin plane. A request for another `Host` needs the admin token, or is answered 421. Loopback names and the host of `server.admin_listen` need not be listed.',
  ),
  'server.public_url': optional(
    kind.publicUrl,
    'Where clients reach this very node, such as `"https://node1.example:4437"`. Sessions tell it to clients whose streams this node leads.',
  ),
  'server.http_inflight_body_size': option(
    kind.size(BODY_BYTES_MAX, 64 * GIB),
    256 * MIB,
    'Request bodies held in memory at once by this node; more are answered 503.',
  ),
  'server.max_connections': optional(
    kind.integer(1, CONNECTIONS_MAX),
    'Connections to the client plane; more are closed as they come. The limit of open files (`ulimit -n`) must have room for them.',
    { defaultNote: 'what the limit of open files leaves' },
  ),
  'server.max_connections_per_address': optional(
    kind.integer(1, CONNECTIONS_MAX),
    'Of these from one address (IPv6: one /64), so that one host cannot shut out the others. Behind a proxy all come from its address.',
    { defaultNote: 'half of `server.max_connections`' },
  ),
  'server.tls_cert': optional(kind.path, 'PEM certificate chain; with it both planes speak HTTPS.'),
  'server.tls_key': optional(kind.path, 'PEM private key of `server.tls_cert`.'),

  'storage.data_dir': option(
    kind.path,
    './data',
    'Log and state of this node, a folder per core.',
    flag('data', 'DIR'),
  ),
  ...COLD_OPTIONS,

  'runtime.core_count': option(
    kind.integer(1, 1024),
    coreCountDefault,
    'Shard threads. Group g lives on core g modulo this number.',
    { ...flag('cores', 'N'), defaultNote: 'CPUs less one, at least 1' },
  ),
  'runtime.live_read_max_waiters_per_core': option(
    kind.integer(0, 2 ** 31 - 1),
    65_536,
    'Long-poll and SSE readers per core; more are answered 503. 0 is no bound.',
  ),

  'raft.node_id': option(
    kind.nodeId,
    1,
    'Id of this node in the cluster. Never changes for existing data. `"hostname"`: the number at the end of the name of the host, plus one (`millrace-0` is node 1).',
  ),
  'raft.group_count': option(
    kind.integer(1, 4096),
    16,
    'Raft groups of the cluster. Never changes for existing data.',
    flag('groups', 'N'),
  ),
  'raft.init_membership': option(
    kind.boolean,
    false,
    'For the very first start of a cluster with peers: an empty data directory may vote at once, unless a peer knew another one of this node. Refused with the directory of a single node.',
  ),
  'raft.max_uncommitted_size_per_group': option(
    kind.size(0, 64 * GIB),
    0,
    'Bytes of a group that wait for a majority of the nodes before its writes are answered 503; 0 is the bound of `server.http_inflight_body_size` alone.',
  ),
  'raft.peers': option(
    kind.peers,
    noPeers,
    'All nodes of the cluster, this one included, with the address of their cluster_listen. Nodes that join later need not be added.',
  ),

  'cluster.name': option(kind.text, 'millrace', 'Nodes of clusters with other names are refused.'),
  'cluster.secret': optional(
    kind.token,
    'Shared by all nodes; 128 random bits at least, as `openssl rand -hex 32` makes them.',
  ),
  'cluster.secret_file': optional(kind.path, 'File with the secret, instead of `cluster.secret`.'),
  'cluster.tls': option(
    kind.choice('off', 'accept', 'dial', 'require'),
    'off',
    'TLS between nodes: none; `accept` both and dial plain; `dial` by TLS and accept both; `require` it. A cluster is [switched](../peer/README.md#to-switch-a-cluster-to-tls) in this order.',
  ),
  'cluster.tls_cert': optional(
    kind.path,
    'PEM certificate chain of this node, with the URI `millrace://<cluster.name>/node/<raft.node_id>` among its names, for servers and clients.',
  ),
  'cluster.tls_key': optional(kind.path, 'PEM private key of `cluster.tls_cert`.'),
  'cluster.tls_ca': optional(kind.path, 'PEM certificates of the authorities of the other nodes, and of no one else.'),

  'governance.cluster_probe.interval': option(
    kind.duration(0, MINUTE_MS),
    SECOND_MS,
    'A node posts a probe to the other nodes this often; one that does not reach a majority gives its leaderships away. 0 is never.',
  ),
  'governance.cluster_probe.probe_size': option(
    kind.size(0, BODY_BYTES_MAX),
    64 * KIB,
    'Size of a probe: as large as the messages that have to get through.',
  ),
  'governance.cluster_probe.timeout': option(
    kind.duration(10, MINUTE_MS),
    SECOND_MS,
    'A probe that takes longer has failed. Busy machines answer late, so less makes false alarms.',
  ),
  'governance.cluster_probe.unhealthy_ticks': option(
    kind.integer(1, 1000),
    3,
    'Failed rounds of probes in a row until the node stops leading.',
  ),
  'governance.cluster_probe.heal_ticks': option(
    kind.integer(1, 1000),
    6,
    'Good rounds in a row until it may lead again.',
  ),
  'governance.cold_health.interval': option(
    kind.duration(0, MINUTE_MS),
    2 * SECOND_MS,
    'A node looks this often whether the cold store takes its bytes; one that cannot reach it gives its leaderships to nodes that can. 0 is never.',
  ),
  'governance.cold_health.unhealthy_ticks': option(
    kind.integer(1, 1000),
    3,
    'Looks in a row that found uploads failing, until the other nodes are asked whether they reach the store.',
  ),
  'governance.cold_health.heal_ticks': option(
    kind.integer(1, 1000),
    5,
    'Proofs of access in a row until the node takes leaderships again.',
  ),

  'http.long_poll_timeout': option(
    kind.duration(1, MINUTE_MS),
    30 * SECOND_MS,
    'How long a long-poll read waits for bytes.',
  ),
  'http.sse_keepalive': option(
    kind.duration(100, 5 * MINUTE_MS),
    15 * SECOND_MS,
    'Pause after which a quiet SSE reader gets a comment.',
  ),
  'http.sse_lifetime': option(
    kind.duration(100, 24 * HOUR_MS),
    MINUTE_MS,
    'Age at which an SSE answer ends; clients reconnect where they were.',
  ),
  'http.cors_origins': optional(
    kind.origins,
    'Origins whose web pages may use the client plane; writes of others are answered 403. `loopback` stands for pages of this host. Without it: `["*"]` (any) with a client token or tokens with scopes, `["loopback"]` without one.',
  ),
  'http.read_cache': option(
    kind.choice('none', 'private', 'public'),
    'none',
    'What caches may keep of reads: nothing; the client itself; also shared caches (see Caches). With a client token not `public`.',
  ),
  'http.client_token': optional(kind.token, 'Bearer token that the client plane requires.'),
  'http.client_token_file': optional(kind.path, 'File with the token, instead of `http.client_token`.'),
  'http.tokens_file': optional(
    kind.path,
    'TOML file with tokens that have [scopes](../access/README.md#tokens-with-scopes), beside the token with all rights. With it the client plane requires one of them.',
  ),
  'http.limits_file': optional(
    kind.path,
    'TOML file with [limits](../access/limits.md) of tokens and buckets: requests, bytes and live readers. SIGHUP reads it again.',
  ),
  'http.jwt_keys_file': optional(
    kind.path,
    'Public keys of an issuer whose [tokens](../access/README.md#tokens-that-an-issuer-signs) have scopes: PEM or JWK. SIGHUP reads it again.',
  ),
  'http.jwks_url': optional(
    kind.endpoint,
    'Where the issuer publishes its keys: a JWKS, fetched every five minutes. `https`, or on this host.',
  ),
  'http.jwt_issuer': optional(kind.text, 'The `iss` of every such token.'),
  'http.jwt_audience': optional(kind.text, 'The `aud` that every such token has, among others.'),
  'http.jwt_clock_skew': option(
    kind.duration(0, 5 * MINUTE_MS),
    30 * SECOND_MS,
    'How much the clocks of issuer and nodes may differ.',
  ),
  'http.signing_key_file': optional(
    kind.path,
    'Ed25519 private keys in PEM, the same on all nodes, with which they [sign tokens](../access/README.md#narrower-tokens) for holders of others. The first signs, all verify. SIGHUP reads it again.',
  ),
  'http.admin_token': optional(kind.token, 'Bearer token that the admin plane requires.'),
  'http.admin_token_file': optional(kind.path, 'File with the token, instead of `http.admin_token`.'),
  'http.admin_client_ca_file': optional(
    kind.path,
    'PEM certificates of authorities. With it, and `server.tls_cert`, the admin plane takes requests with a [client certificate](../access/operators.md#client-certificates) of theirs only, beside the token. SIGHUP reads it again.',
  ),
  'http.admin_tokens_file': optional(
    kind.path,
    'TOML file with tokens that have [roles](../access/operators.md#roles), beside the admin token, which has all. With it the admin plane requires one of them.',
  ),

  'http.trusted_proxies': option(
    kind.networks,
    noHosts,
    'Addresses and networks of proxies whose `X-Forwarded-For` or `Forwarded` is believed: the [audit log](../audit/README.md) names the last address in it that is none of these. SIGHUP reads it again.',
  ),

  'audit.file': optional(
    kind.path,
    'Where the [audit log](../audit/README.md) goes. Without it: into the process log, as lines of the component `audit`.',
  ),

  'subscriptions.public_url': optional(
    kind.url,
    'Under which webhook receivers reach the cluster: callbacks and public keys. Without it: as the client did that made the subscription.',
  ),
  'subscriptions.signing_key_file': optional(
    kind.path,
    'PEM file with the Ed25519 private key that signs webhooks, the same on all nodes. Without it: the cluster makes one and keeps it in its log.',
  ),
  'subscriptions.deliver': option(
    kind.boolean,
    true,
    'Whether wakes are sent. Set it to false on all nodes of a drill with a restored backup, or the receivers of the source are called.',
  ),
  'subscriptions.webhooks': option(
    kind.boolean,
    true,
    'Clients may have the nodes call webhooks. Without it only workers subscribe, and what is pending for webhooks waits.',
  ),
  'subscriptions.local_webhooks': option(
    kind.boolean,
    false,
    'For development: webhooks may be at `localhost` or `127.0.0.x`, also by http.',
  ),

  'tracing.otlp_endpoint': optional(
    kind.endpoint,
    'Where traces of requests go: the URL of a receiver of OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`. Without it nothing is traced.',
  ),
  'tracing.sample_ratio': option(
    kind.ratio,
    0.01,
    'Share of the requests without a `traceparent` that are followed. One with a `traceparent` is followed when that says sampled. Of each kind at most 100 a second.',
  ),
  'tracing.otlp_token': optional(kind.token, 'Bearer token that the receiver requires.'),
  'tracing.otlp_token_file': optional(kind.path, 'File with the token, instead of `tracing.otlp_token`.'),
} as const satisfies Readonly<Record<string, Option<unknown>>>;

export type OptionKey = keyof typeof OPTIONS;

/** The value of each option after defaults: undefined only for those without one. */
export type OptionValues = {
  readonly [K in OptionKey]: (typeof OPTIONS)[K] extends Defaulted<infer T>
    ? T
    : (typeof OPTIONS)[K] extends Option<infer T>
      ? T | undefined
      : never;
};

export const OPTION_KEYS = Object.keys(OPTIONS) as readonly OptionKey[];

export function isOptionKey(key: string): key is OptionKey {
  return Object.hasOwn(OPTIONS, key);
}
