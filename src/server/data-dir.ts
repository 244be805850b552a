/**
 * The data directory: who may use it and how it is laid out.
 *
 *   millrace.json   format, node id, group count and shard count, written once
 *   shard-N/        LMDB environment of shard N
 *
 * Groups live in shard (group mod shard count), so the shard count is fixed when the directory is created.
 */
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { ConfigError } from '../config/error.ts';

const FILE = 'millrace.json';
const FORMAT = 1;

export interface Layout {
  readonly nodeId: number;
  readonly groupCount: number;
  readonly shardCount: number;
}

interface Stored extends Layout {
  readonly format: number;
}

/** Opens or creates the directory; returns the layout in force. Throws ConfigError with what to change. */
export function openDataDir(path: string, wanted: Layout): Layout {
  try {
    mkdirSync(path, { recursive: true });
  } catch (error) {
    throw new ConfigError(`storage.data_dir ${path}: cannot be created (${(error as Error).message})`);
  }
  const file = join(path, FILE);
  if (!existsSync(file)) {
    if (readdirSync(path).some((name) => name.startsWith('shard-'))) {
      throw new ConfigError(`storage.data_dir ${path}: holds shards but no ${FILE}; restore that file or name another directory`);
    }
    create(path, file, wanted);
    return wanted;
  }
  const stored = read(path, file);
  if (stored.nodeId !== wanted.nodeId) {
    throw new ConfigError(`raft.node_id ${wanted.nodeId}: ${path} belongs to node ${stored.nodeId}`);
  }
  if (stored.groupCount !== wanted.groupCount) {
    throw new ConfigError(
      `raft.group_count ${wanted.groupCount}: ${path} was created with ${stored.groupCount} groups, and that never changes`,
    );
  }
  return stored;
}

function create(path: string, file: string, layout: Layout): void {
  const stored: Stored = { format: FORMAT, ...layout };
  try {
    writeFileSync(`${file}.new`, `${JSON.stringify(stored, undefined, 2)}\n`, { flush: true } as object);
    renameSync(`${file}.new`, file);
  } catch (error) {
    throw new ConfigError(`storage.data_dir ${path}: cannot be written (${(error as Error).message})`);
  }
}

function read(path: string, file: string): Stored {
  let stored: Partial<Stored>;
  try {
    stored = JSON.parse(readFileSync(file, 'utf8')) as Partial<Stored>;
  } catch (error) {
    throw new ConfigError(`storage.data_dir ${path}: ${FILE} cannot be read (${(error as Error).message})`);
  }
  if (stored.format !== FORMAT) {
    throw new ConfigError(`storage.data_dir ${path}: written by another version (format ${String(stored.format)})`);
  }
  const { nodeId, groupCount, shardCount } = stored;
  if (nodeId === undefined || groupCount === undefined || shardCount === undefined) {
    throw new ConfigError(`storage.data_dir ${path}: ${FILE} is incomplete`);
  }
  return { format: FORMAT, nodeId, groupCount, shardCount };
}

/**
 * Makes sure that no other process on this host uses the directory, until this one ends. An abstract Unix socket named
 * after the directory's inode: the kernel frees it with the process, however that dies, so there is no stale lock file.
 */
export function lockDataDir(path: string): Promise<void> {
  if (process.platform !== 'linux') return Promise.resolve();
  const { dev, ino } = statSync(path);
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.unref();
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') return reject(error);
      return reject(new ConfigError(`storage.data_dir ${path}: in use by another process`));
    });
    server.listen(`\0millrace-${dev}-${ino}`, () => resolve());
  });
}
