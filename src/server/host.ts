/** One node of a process that may hold several: its surroundings, given at its start, and all it has opened since. */
import type { Runtime } from '../base/runtime.ts';
import type { ColdStore } from '../cold/service/start.ts';
import type { Gateway } from '../gateway/gateway.ts';
import type { JsonPool } from './json-pool.ts';
import type { Planes } from '../http/server.ts';
import type { NodeLog } from '../logging/logger.ts';
import type { Closed } from '../threads/thread-pool.ts';
import type { Tracing } from '../tracing/tracing.ts';
import type { DirectoryLock } from './data-dir.ts';
import type { Shards, StartShardThread } from './shards.ts';

export interface Host {
  readonly log: NodeLog;
  readonly runtime: Runtime;
  readonly startedMs: number;
  /** One tick of Raft; undefined: the usual one. */
  readonly tickMs: number | undefined;
  /** Undefined: a new thread for each shard. */
  readonly startThread: StartShardThread | undefined;
  /** The node must not go on: a shard has failed, or the directory is another cluster's. */
  readonly fail: (error: Error) => void;
}

/** Each part from the moment at which it has to be closed. */
export interface Opened {
  lock?: DirectoryLock;
  cold?: ColdStore | undefined;
  shards?: Shards;
  gateway?: Gateway;
  json?: JsonPool;
  services?: { stop(): void; close(): Promise<void> };
  tracing?: Tracing;
  tokens?: { stop(): void } | undefined;
  audit?: { close(): Promise<void> };
  planes?: Planes;
}

/**
 * Ends a node, or what a start that failed has opened. Accepted requests get `graceMs` to be answered. A part that
 * does not close keeps no other one open; the first error is thrown at the end.
 */
export async function closeAll(opened: Opened, graceMs: number): Promise<Closed> {
  const errors: unknown[] = [];
  const end = async <T>(part: () => T | Promise<T>): Promise<T | undefined> => {
    try {
      return await part();
    } catch (error) {
      errors.push(error);
      return undefined;
    }
  };
  const { lock, services, tokens, planes, audit, tracing, shards, gateway, json, cold } = opened;
  await end(() => tokens?.stop());
  await end(() => services?.stop());
  await end(() => planes?.close(graceMs));
  await end(() => audit?.close());
  // Beside the rest: a receiver that hangs must not keep the shards from their checkpoints.
  const traced = end(() => tracing?.stop());
  await end(() => services?.close());
  const threads = shards === undefined ? 'ended' : await end(() => shards.stop());
  await end(() => gateway?.close());
  await end(() => json?.close());
  const pool = cold === undefined ? 'ended' : await end(() => cold.close());
  await traced;
  // Threads that hang still hold the directory.
  if (threads === 'ended') await end(() => lock?.release());
  if (errors.length > 0) throw errors[0];
  return threads === 'ended' && pool === 'ended' ? 'ended' : 'hanging';
}
