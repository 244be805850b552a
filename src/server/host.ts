/** One node of a process that may hold several: its surroundings, given at its start, and all it has opened since. */
import type { Runtime } from '../base/runtime.ts';
import type { ColdStore } from '../cold/service/start.ts';
import type { Gateway } from '../gateway/gateway.ts';
import type { Planes } from '../http/server.ts';
import type { NodeLog } from '../logging/logger.ts';
import type { Closed } from '../threads/thread-pool.ts';
import type { Tracing } from '../tracing/tracing.ts';
import type { DirectoryLock } from './data-dir.ts';
import type { Shards } from './shards.ts';

export interface Host {
  readonly log: NodeLog;
  readonly runtime: Runtime;
  readonly startedMs: number;
  /** One tick of Raft; undefined: the usual one. */
  readonly tickMs: number | undefined;
  /** The node must not go on: a shard has failed, or the directory is another cluster's. */
  readonly fail: (error: Error) => void;
}

/** Each part from the moment at which it has to be closed. */
export interface Opened {
  lock?: DirectoryLock;
  cold?: ColdStore | undefined;
  shards?: Shards;
  gateway?: Gateway;
  services?: { stop(): void; close(): Promise<void> };
  tracing?: Tracing;
  planes?: Planes;
}

/** Ends a node, or what a start that failed has opened. Accepted requests get `graceMs` to be answered. */
export async function closeAll(opened: Opened, graceMs: number): Promise<Closed> {
  const { lock, services, gateway } = opened;
  services?.stop();
  await opened.planes?.close(graceMs);
  // Beside the rest: a receiver that hangs must not keep the shards from their checkpoints.
  const traced = opened.tracing?.stop();
  await services?.close();
  const shards = (await opened.shards?.stop()) ?? 'ended';
  gateway?.close();
  const cold = (await opened.cold?.close()) ?? 'ended';
  await traced;
  if (shards !== 'ended') return shards;
  // Threads that hang still hold the directory.
  await lock?.release();
  return cold;
}
