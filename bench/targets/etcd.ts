// A three-node etcd with its defaults (fsync of the write-ahead log before every acknowledgement; 3.4 cannot do
// without).

import { setTimeout as sleep } from 'node:timers/promises';
import { HttpExchange } from '../load/exchange.ts';
import { isInstalled } from '../processes.ts';
import { startNodes, type NodePlace } from './nodes.ts';
import type { RunningCluster, Target } from './target.ts';

const READY_TIMEOUT_MS = 60_000;
const READY_POLL_MS = 50;
/** Above what a run can write: the default of 2 GB would end it with an alarm. */
const QUOTA_BYTES = 8 * 2 ** 30;

function command(place: NodePlace, all: readonly NodePlace[]): [string, ...string[]] {
  const name = (id: number): string => `node-${id}`;
  const [client, peer] = [`http://127.0.0.1:${place.port}`, `http://127.0.0.1:${place.clusterPort}`];
  const flags: Readonly<Record<string, string>> = {
    name: name(place.id),
    'data-dir': place.dir,
    'listen-client-urls': client,
    'advertise-client-urls': client,
    'listen-peer-urls': peer,
    'initial-advertise-peer-urls': peer,
    'initial-cluster': all.map(({ id, clusterPort }) => `${name(id)}=http://127.0.0.1:${clusterPort}`).join(','),
    'initial-cluster-state': 'new',
    'quota-backend-bytes': String(QUOTA_BYTES),
    // More patient than the default (100 and 1000 ms): on a machine that the load fills, an election would spoil a run.
    'heartbeat-interval': '300',
    'election-timeout': '3000',
    'log-level': 'error',
    logger: 'zap',
  };
  return ['etcd', ...Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`)];
}

/** A put through each node; through the JSON gateway, for convenience. */
async function ready(places: readonly NodePlace[]): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS;
  const body = Buffer.from(JSON.stringify({ key: 'cmVhZHk=', value: 'eA==' }));
  for (const { port, id } of places) {
    const exchange = await HttpExchange.open(port);
    for (;;) {
      const { status } = await exchange.request('POST', '/v3/kv/put', 'application/json', body);
      if (status === 200) break;
      if (Date.now() > deadline) throw new Error(`etcd node ${id} answers ${status} to a put`);
      await sleep(READY_POLL_MS);
    }
    exchange.close();
  }
}

export const etcd: Target<RunningCluster> = {
  name: 'etcd',
  durability: 'fsync of the Raft log on a majority of three nodes before every acknowledgement (put)',
  missing: () => (isInstalled('etcd') ? undefined : 'etcd is not installed: apt install etcd-server'),
  start: (options) => startNodes({ name: 'etcd', protocol: 'etcd', end: 'kill', command, ready }, options),
};
