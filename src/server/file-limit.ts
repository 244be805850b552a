/** The number of connections that the limit of open files allows. */
import { readFileSync } from 'node:fs';
import type { Runtime } from '../base/runtime.ts';
import type { Config } from '../config/config.ts';
import { ADMIN_CONNECTIONS_MAX, type ConnectionBounds, Connections, connectionsTo } from '../access/connections.ts';
import type { Logger } from '../logging/logger.ts';

/** Libraries, event loops, logs, the pool's threads, connections to cold store and webhooks, files of backups. */
const OWN_FILES = 128;
/** LMDB, some twenty segments of the log, and the event loops of the two threads of a shard. */
const FILES_PER_CORE = 32;
/** Links to other nodes and the HTTP connections that the cluster plane takes. */
const CLUSTER_FILES_PER_CORE = 96;
/** A node that cannot have even these is useless; it logs that. */
const CONNECTIONS_MIN = 16;
/** Used where the system does not report its limit: the usual one of a service. */
const FILES_UNKNOWN = 4096;

type Wanted = Pick<Config, 'server' | 'runtime'>;

/** Soft limit, which Node has raised to the hard one; undefined where it is unknown. */
function openFilesMax(): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    if (soft === 'unlimited') return Infinity;
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}

/** Files that the node needs for everything but clients. @internal */
export function reservedFiles({ server, runtime }: Wanted): number {
  const perCore = FILES_PER_CORE + (server.clusterListen === undefined ? 0 : CLUSTER_FILES_PER_CORE);
  return OWN_FILES + ADMIN_CONNECTIONS_MAX + perCore * runtime.coreCount;
}

/** @internal */
export function connectionBounds(
  wanted: Wanted,
  filesMax: number,
): ConnectionBounds & { readonly warning: string | undefined } {
  const { maxConnections, maxConnectionsPerAddress } = wanted.server;
  const reserved = reservedFiles(wanted);
  const room = Math.max(CONNECTIONS_MIN, Math.min(filesMax - reserved, 1_000_000));
  const all = Math.min(maxConnections ?? room, room);
  const perAddress = Math.min(maxConnectionsPerAddress ?? Math.ceil(all / 2), all);
  const raise = `raise it (LimitNOFILE= in the unit file, ulimit -n) to ${reserved + (maxConnections ?? 1024)}`;
  const kept = `the limit of ${filesMax} open files, of which the node keeps ${reserved} for itself, leaves ${room} connections to clients`;
  const isShort = maxConnections === undefined ? room < 256 : maxConnections > room;
  const asked = maxConnections === undefined ? '' : `, and server.max_connections is ${maxConnections}`;
  return { all, perAddress, warning: isShort ? `${kept}${asked}: ${raise}` : undefined };
}

export function openConnections(config: Wanted, log: Logger, runtime: Pick<Runtime, 'monotonicMs'>): Connections {
  const { warning, ...bounds } = connectionBounds(config, openFilesMax() ?? FILES_UNKNOWN);
  if (warning !== undefined) log.warn(warning);
  const warn = (fields: Readonly<Record<string, unknown>>, message: string): void => log.warn(fields, message);
  return new Connections(bounds, { monotonicMs: () => runtime.monotonicMs(), warn, connectionsTo });
}
