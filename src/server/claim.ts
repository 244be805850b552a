/** Stage 1: the data directory is this process's own, and says what the node is. */
import type { Config } from '../config/config.ts';
import { loadUws } from '../http/uws.ts';
import type { Logger } from '../logging/logger.ts';
import { readDrainMark } from '../placement/shed-state.ts';
import { type Directory, type Layout, isVolatile, lockDataDir, openDataDir } from './data-dir.ts';
import { makePrivate } from './private-files.ts';
import { clusterOf } from './shards.ts';

export interface Claim {
  readonly layout: Layout & Directory;
  readonly wasDraining: boolean;
  /** False: in memory. */
  readonly onDisk: boolean;
}

/** Nothing is written on a host that cannot serve, or into a directory that another process uses. */
export async function claimDataDir(config: Config, log: Logger): Promise<Claim> {
  const { raft, runtime, storage } = config;
  const path = storage.dataDir;
  loadUws();
  const { nodeId, groupCount } = raft;
  const shardCount = Math.min(runtime.coreCount, groupCount);
  await lockDataDir(path);
  makePrivate(path, log);
  const layout = openDataDir(path, { nodeId, groupCount, shardCount, single: clusterOf(config) === undefined });
  if (layout.shardCount !== shardCount) {
    log.warn(
      { asked: shardCount, used: layout.shardCount },
      'the data directory was laid out for another number of cores, which stays in force',
    );
  }
  const onDisk = !isVolatile(path);
  if (!onDisk) log.warn({ path }, 'the data directory is in memory: a restart of this host loses it');
  return { layout, onDisk, wasDraining: readDrainMark(path) };
}
