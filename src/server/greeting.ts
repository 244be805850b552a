/** The greeting of `npm start` on stdout: addresses, durability, and first commands. */
import { type Address, formatAddress } from '../base/address.ts';
import type { Config } from '../config/config.ts';
import { asksForToken } from '../config/doors.ts';
import { VERSION } from '../config/version.ts';

export interface StartFacts {
  /** Where the planes listen, with the ports that were free. */
  readonly client: Address;
  readonly admin: Address;
  readonly shardCount: number;
  readonly startMs: number;
  /** False when the data directory is in memory (tmpfs). */
  readonly onDisk: boolean;
}

export function greeting(config: Config, { client: listen, admin, shardCount, startMs, onDisk }: StartFacts): string {
  const { server, storage, raft } = config;
  const scheme = server.tls === undefined ? 'http' : 'https';
  const client = `${scheme}://${formatAddress(listen)}`;
  const shards = `${shardCount} shard${shardCount === 1 ? '' : 's'}`;
  const ms = Math.round(startMs);
  return [
    `Millrace ${VERSION}, node ${raft.nodeId}: ready in ${ms} ms`,
    `  clients   ${client}`,
    `  admin     ${scheme}://${formatAddress(admin)}  (/__svc/metrics, /__svc/ready)`,
    `  data      ${storage.dataDir}  (${raft.groupCount} groups on ${shards})`,
    ...(storage.cold.backend === 'none' ? [] : [`  cold      ${storage.cold.backend}`]),
    `  durable   ${durability(raft.peers.length, onDisk)}`,
    `  try       ${firstCommands(config, client)}`,
    '',
  ].join('\n');
}

function durability(nodes: number, onDisk: boolean): string {
  if (!onDisk) return 'NO: the data directory is in memory (tmpfs), and a restart of this host loses it';
  return nodes < 2
    ? 'every acknowledged write is on disk (fsync) before its answer leaves; single node: one disk'
    : `every acknowledged write is on the disks (fsync) of a majority of ${nodes} nodes before its answer leaves`;
}

/** Complete: with the certificate to trust, and the token by name, so that it stays out of logs. */
function firstCommands({ server, http }: Config, client: string): string {
  const trust = server.tls === undefined ? '' : ` --cacert ${server.tls.certPath}`;
  const token = asksForToken(http) ? ' -H "Authorization: Bearer $TOKEN"' : '';
  const curl = `curl${trust}${token}`;
  const url = `${client}/demo/hello`;
  return `${curl} -X PUT ${url} && ${curl} -X POST -H 'Content-Type: text/plain' -d hi ${url}`;
}
