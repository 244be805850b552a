// Three Millrace nodes as a user starts them: one TOML per node, every default but the number of cores.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Authority } from '../../test/support/node-certificates.ts';
import { HttpExchange } from '../load/exchange.ts';
import { entryOf, missingEntry } from './millrace.ts';
import { startNodes, type NodePlace } from './nodes.ts';
import { streamPath, type RunningCluster, type StartOptions, type Target } from './target.ts';

/** Three nodes with two threads each and the load share the machine; more shard threads would only take turns. */
const CORES = 1;
const READY_TIMEOUT_MS = 60_000;
const READY_POLL_MS = 50;
/** Names enough to fall into each of the 16 groups, all but surely (16 × (15/16)^128 < 0.5 %). */
const READY_STREAMS = 128;

function toml(place: NodePlace, all: readonly NodePlace[]): string {
  const peers = all.map(({ id, clusterPort }) => `{ node_id = ${id}, addr = "127.0.0.1:${clusterPort}" }`);
  return `[server]
listen = "127.0.0.1:${place.port}"
admin_listen = "127.0.0.1:${place.adminPort}"
cluster_listen = "127.0.0.1:${place.clusterPort}"

[storage]
data_dir = "${place.dir}"

[runtime]
core_count = ${CORES}

[raft]
node_id = ${place.id}
init_membership = true
peers = [${peers.join(', ')}]
`;
}

function tlsToml({ id }: NodePlace, authority: Authority): string {
  const { certPath, keyPath } = authority.certify(id);
  return `
[cluster]
tls = "require"
tls_cert = "${certPath}"
tls_key = "${keyPath}"
tls_ca = "${authority.caPath}"
`;
}

/** Every node takes a create in every group: leaders are elected and every follower knows them. */
async function ready(places: readonly NodePlace[]): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS;
  for (const { port, id } of places) {
    const exchange = await HttpExchange.open(port);
    for (let created = 0; created < READY_STREAMS;) {
      const path = streamPath(`ready-${created}`);
      const { status } = await exchange.request('PUT', path, 'application/octet-stream');
      if (status === 200 || status === 201) {
        created++;
        continue;
      }
      if (Date.now() > deadline) throw new Error(`node ${id} answers ${status} to a create of ${path}`);
      await sleep(READY_POLL_MS);
    }
    exchange.close();
  }
}

const DURABILITY = 'fsync on a majority of three nodes before every acknowledgement';

function start(
  name: RunningCluster['name'],
  entry: string,
  options: StartOptions,
  links: 'plain' | 'tls' = 'plain',
): Promise<RunningCluster> {
  let authority: Authority | undefined;
  return startNodes(
    {
      name,
      protocol: 'http',
      // In order: --cpu-prof writes its files at the end.
      end: 'stop',
      shardThreads: CORES,
      command: (place, all) => {
        mkdirSync(place.dir);
        const file = join(place.dir, 'node.toml');
        if (links === 'tls') authority ??= new Authority(join(place.dir, 'authority'));
        const tls = authority === undefined ? '' : tlsToml(place, authority);
        writeFileSync(file, toml({ ...place, dir: join(place.dir, 'data') }, all) + tls);
        return [process.execPath, ...options.nodeArgs, entry, '--config', file];
      },
      ready,
    },
    options,
  );
}

export const millraceCluster: Target<RunningCluster> = {
  name: 'millrace-cluster',
  durability: DURABILITY,
  missing: (options) => missingEntry('now', options),
  start: (options) => start('millrace-cluster', entryOf('now', options), options),
};

export const millraceClusterBefore: Target<RunningCluster> = {
  name: 'millrace-cluster-before',
  durability: `${DURABILITY}, the build of --before`,
  isBefore: true,
  missing: (options) => missingEntry('before', options),
  start: (options) => start('millrace-cluster-before', entryOf('before', options), options),
};

/** Its links by TLS; to compare with millrace-cluster in the same run. */
export const millraceClusterTls: Target<RunningCluster> = {
  ...millraceCluster,
  name: 'millrace-cluster-tls',
  durability: `${DURABILITY}, links by TLS`,
  isExtra: true,
  start: (options) => start('millrace-cluster-tls', entryOf('now', options), options, 'tls'),
};

interface Metrics {
  readonly wal_batches: number;
  readonly raft_groups: readonly { readonly leader: number | null }[];
}

async function metricsOf({ adminPort }: RunningCluster['nodes'][number]): Promise<Metrics> {
  const exchange = await HttpExchange.open(adminPort);
  const { body } = await exchange.request('GET', '/__svc/metrics');
  exchange.close();
  return JSON.parse(body.toString('utf8')) as Metrics;
}

/** Durable commits since the start, of all nodes together. */
export async function commitsOfNodes(cluster: RunningCluster): Promise<number> {
  const metrics = await Promise.all(cluster.nodes.map(metricsOf));
  return metrics.reduce((sum, { wal_batches }) => sum + wal_batches, 0);
}

/** How many groups each node leads, node 1 first, as that node sees it. */
export async function leadersPerNode(cluster: RunningCluster): Promise<number[]> {
  const groups = (await metricsOf(cluster.nodes[0]!)).raft_groups;
  return cluster.nodes.map((_, index) => groups.filter(({ leader }) => leader === index + 1).length);
}
