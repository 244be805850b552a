/** Stage 1: the data directory is this node's own, and says what the node is. */
import { type Stats, chmodSync, lstatSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import { loadUws } from '../http/uws.ts';
import type { Logger } from '../logging/logger.ts';
import { readDrainMark } from '../placement/shed-state.ts';
import { type NodeDirectory, type Layout, isVolatile, lockDataDir, openDataDir } from './data-dir.ts';
import type { Opened } from './host.ts';
import { clusterOf } from './cluster-data.ts';

const OTHERS = 0o077;
const SHARD_FOLDER = /^shard-\d+$/;

export interface Claim {
  readonly layout: Layout & NodeDirectory;
  readonly wasDraining: boolean;
  /** False when the data directory is in memory. */
  readonly onDisk: boolean;
}

/** Nothing is written on a host that cannot serve, or into a directory that another node uses. */
export async function claimDataDir(config: Config, log: Logger, opened: Opened): Promise<Claim> {
  const { raft, runtime, storage } = config;
  const path = storage.dataDir;
  loadUws();
  const { nodeId, groupCount } = raft;
  const shardCount = Math.min(runtime.coreCount, groupCount);
  opened.lock = await lockDataDir(path);
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

/**
 * A directory that other users of the host can read or change: copied from elsewhere, or created by a version that did
 * not restrict it. Files of this user are closed to others, with a log line; other files are named in the log. Closed
 * directories need no look inside, except those of the shards, whose content may be linked from elsewhere.
 */
function makePrivate(dataDir: string, log: Pick<Logger, 'warn'>): void {
  const closed: string[] = [];
  const foreign: string[] = [];
  for (const [path, { mode }] of entriesOf(dataDir)) {
    if ((mode & OTHERS) === 0) continue;
    try {
      chmodSync(path, mode & 0o700);
      closed.push(path);
    } catch {
      foreign.push(path);
    }
  }
  if (closed.length > 0) {
    const sentence = 'the data directory was open to other users of this host; it is closed to them now';
    log.warn({ path: dataDir, entries: closed.length, first: closed[0] }, sentence);
  }
  if (foreign.length > 0) {
    const sentence =
      'a part of the data directory is open to other users of this host and belongs to another user: chmod it';
    log.warn({ path: dataDir, entries: foreign.length, first: foreign[0] }, sentence);
  }
}

/** The directory itself may be a link to a disk; links inside are ignored. */
function* entriesOf(dataDir: string): Generator<readonly [path: string, stats: Stats]> {
  yield [dataDir, statSync(dataDir)];
  for (const name of readdirSync(dataDir)) {
    const path = join(dataDir, name);
    const stats = entryAt(path);
    if (stats === undefined) continue;
    yield [path, stats];
    if (!stats.isDirectory() || !SHARD_FOLDER.test(name)) continue;
    for (const inner of readdirSync(path)) {
      const innerStats = entryAt(join(path, inner));
      if (innerStats !== undefined) yield [join(path, inner), innerStats];
    }
  }
}

/** Files and folders. */
function entryAt(path: string): Stats | undefined {
  const stats = lstatSync(path);
  return stats.isFile() || stats.isDirectory() ? stats : undefined;
}
