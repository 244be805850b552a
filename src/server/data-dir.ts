/**
 * The data directory: who may use it and how it is laid out.
 *
 *   millrace.json   format, node id, group count and shard count, and whether all shards were ever there
 *   shard-N/        LMDB environment of shard N
 *
 * Groups live in shard (group mod shard count), so the shard count is fixed when the directory is created. A directory
 * that lost a shard is refused: an empty shard in its place would look like data that never existed.
 */
import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  statfsSync,
  writeSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import { GROUP_COUNT_MAX } from '../base/hash.ts';
import { makeFolder } from '../cold/folder.ts';
import { ConfigError } from '../config/error.ts';

const FILE = 'millrace.json';
/** 2: streams have a cold part, buckets a quota. */
const FORMAT = 2;
const SHARD_FOLDER = /^shard-(\d+)$/;

export interface Layout {
  readonly nodeId: number;
  readonly groupCount: number;
  readonly shardCount: number;
}

interface Stored extends Layout {
  readonly format: number;
  /** All shards have been opened once, so each must be there from now on. */
  readonly complete: boolean;
}

function refused(path: string, why: string): ConfigError {
  return new ConfigError(`storage.data_dir ${path}: ${why}`);
}

/**
 * Makes the directory if need be, and sure that no other process on this host uses it until this one ends: an abstract
 * Unix socket named after the directory's inode. The kernel frees it with the process, however that dies, so there is no
 * stale lock file. Before anything in the directory is looked at.
 */
export async function lockDataDir(path: string): Promise<void> {
  try {
    await makeFolder(path);
  } catch (error) {
    throw refused(path, `cannot be created (${(error as Error).message})`);
  }
  if (process.platform !== 'linux') return;
  const { dev, ino } = statSync(path);
  await new Promise<void>((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.unref();
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(error.code === 'EADDRINUSE' ? refused(path, 'in use by another process') : error);
    });
    server.listen(`\0millrace-${dev}-${ino}`, () => resolve());
  });
}

/** Reads or creates the layout; returns the one in force. Throws ConfigError with what to change. */
export function openDataDir(path: string, wanted: Layout): Layout {
  let names: string[];
  try {
    names = readdirSync(path);
  } catch (error) {
    throw refused(path, `cannot be read (${(error as Error).message})`);
  }
  const shards = names.flatMap((name) => SHARD_FOLDER.exec(name)?.[1] ?? []).map(Number);
  if (!names.includes(FILE)) {
    if (shards.length > 0) {
      throw refused(path, `holds shards but no ${FILE}; restore that file or name another directory`);
    }
    store(path, { format: FORMAT, complete: false, ...wanted });
    return wanted;
  }
  const stored = read(path);
  if (stored.nodeId !== wanted.nodeId) {
    throw new ConfigError(`raft.node_id ${wanted.nodeId}: ${path} belongs to node ${stored.nodeId}`);
  }
  if (stored.groupCount !== wanted.groupCount) {
    throw new ConfigError(
      `raft.group_count ${wanted.groupCount}: ${path} was created with ${stored.groupCount} groups, and that never changes`,
    );
  }
  checkShards(path, stored, shards);
  return stored;
}

function checkShards(path: string, stored: Stored, found: readonly number[]): void {
  const foreign = found.find((shard) => shard >= stored.shardCount);
  if (foreign !== undefined) {
    throw refused(
      path,
      `holds shard-${foreign}, but ${FILE} speaks of ${stored.shardCount} shards; restore the right file`,
    );
  }
  if (!stored.complete) return;
  for (let shard = 0; shard < stored.shardCount; shard++) {
    if (sizeOf(join(path, `shard-${shard}`, 'data.mdb')) === 0) {
      throw refused(path, `shard-${shard}/data.mdb is missing or empty; restore it, or start with another directory`);
    }
  }
}

function sizeOf(file: string): number {
  try {
    return statSync(file).size;
  } catch {
    return 0;
  }
}

/** All shards are open: from now on each of them must be there. Their directory entries are on disk when this returns. */
export function completeDataDir(path: string, layout: Layout): void {
  if (read(path).complete) return;
  for (let shard = 0; shard < layout.shardCount; shard++) syncFolder(join(path, `shard-${shard}`));
  const { nodeId, groupCount, shardCount } = layout;
  store(path, { format: FORMAT, complete: true, nodeId, groupCount, shardCount });
}

function store(path: string, stored: Stored): void {
  const file = join(path, FILE);
  try {
    const descriptor = openSync(`${file}.new`, 'w', 0o600);
    writeSync(descriptor, `${JSON.stringify(stored, undefined, 2)}\n`);
    fsyncSync(descriptor);
    closeSync(descriptor);
    renameSync(`${file}.new`, file);
    syncFolder(path);
  } catch (error) {
    throw refused(path, `cannot be written (${(error as Error).message})`);
  }
}

/** A new name is durable once its folder is. */
function syncFolder(path: string): void {
  const descriptor = openSync(path, 'r');
  fsyncSync(descriptor);
  closeSync(descriptor);
}

function read(path: string): Stored {
  let found: unknown;
  try {
    found = JSON.parse(readFileSync(join(path, FILE), 'utf8'));
  } catch (error) {
    throw refused(path, `${FILE} cannot be read (${(error as Error).message})`);
  }
  const { format, nodeId, groupCount, shardCount, complete } = (found ?? {}) as Partial<Stored>;
  if (format !== FORMAT) throw refused(path, `written by another version (format ${String(format)})`);
  if (!within(nodeId, 2 ** 32) || !within(groupCount, GROUP_COUNT_MAX) || !within(shardCount, groupCount)) {
    throw refused(
      path,
      `${FILE} is damaged: expected node id, group count, and a shard count of at most the group count`,
    );
  }
  return { format, complete: complete === true, nodeId, groupCount, shardCount };
}

/** Linux names file systems by these numbers (statfs(2)): tmpfs, ramfs. */
const MEMORY_FILE_SYSTEMS: readonly number[] = [0x01021994, 0x858458f6];

/** True when the directory is in memory: fsync succeeds there and means nothing. */
export function isVolatile(path: string): boolean {
  return process.platform === 'linux' && MEMORY_FILE_SYSTEMS.includes(statfsSync(path).type);
}

function within(value: unknown, most: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= most;
}
