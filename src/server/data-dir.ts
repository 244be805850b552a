/**
 * The data directory: exclusive use and layout.
 *
 * millrace.json   format, node id, group count and shard count, and whether all shards ever existed; the identity of
 *                 the cluster, the id of this directory, how often it was started, and the last start that all shards
 *                 have recorded
 *   shard-N/        log and LMDB environment of shard N
 *
 * Groups are in shard (group mod shard count), so the shard count is fixed when the directory is created. A directory
 * that lost a shard is refused: an empty shard in its place would lose data silently.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import { GROUP_COUNT_MAX } from '../base/hash.ts';
import { makeFolder } from '../cold/store/dir-store.ts';
import { ConfigError } from '../config/error.ts';
import { type DirectoryStart, joinStarts } from '../peer/codec/standing.ts';
import { syncPath } from '../store/log-files.ts';
import { caughtMessage } from '../base/caught.ts';

const FILE = 'millrace.json';
/**
 * 2: streams have a cold part, buckets a quota. 3: the log is in files of its own. 4: rows and parts of log records
 * carry checksums.
 */
const FORMAT = 4;
/**
 * The oldest that is read. A start writes its own number before a shard is opened, so a version that knows only lower
 * ones refuses the directory from then on. Each shard converts what it finds, whatever the number says: a conversion
 * that was interrupted goes on.
 */
const FORMAT_OLDEST = 2;
export const CLUSTER_ID_BYTES = 16;
const CLUSTER_ID = /^[0-9a-f]{32}$/;
const DIRECTORY_ID_BYTES = 8;
const DIRECTORY_ID = /^[0-9a-f]{16}$/;
/** Restores that are remembered; each needs an operator's action. */
const SOURCES_MAX = 64;
const SHARD_FOLDER = /^shard-(\d+)$/;

export interface Layout {
  readonly nodeId: number;
  readonly groupCount: number;
  readonly shardCount: number;
}

/** Identity of this directory. Versions that do not know it leave it unchanged. */
export interface NodeDirectory {
  /** The cluster's identity; empty: not known yet. */
  readonly clusterId: string;
  readonly directoryId: string;
  /** This start on it; the first is 1. */
  readonly incarnation: number;
  /**
   * The last start that every shard has recorded in its own folder. Undefined: none yet, or a version that does not
   * record it has used the directory since.
   */
  readonly shardRun: number | undefined;
  /** Created by a version that does not draw ids. */
  readonly migrated: boolean;
  /** Created by a node without peers; undefined: by a version that did not record it. */
  readonly single: boolean | undefined;
  /** Runs of this node, on other directories or on a newer state of this one, whose loss it has noticed. */
  readonly settled: readonly DirectoryStart[];
  /** Clusters whose backups were imported through this node. */
  readonly restoredFrom: readonly string[];
}

interface Stored extends Layout, NodeDirectory {
  readonly format: number;
  /** All shards have been opened once, so each must exist from now on. */
  readonly complete: boolean;
}

/** How the node is started. */
export interface Wanted extends Layout {
  /** Without peers. */
  readonly single: boolean;
}

export function refused(path: string, why: string): ConfigError {
  return new ConfigError(`storage.data_dir ${path}: ${why}`);
}

export interface DirectoryLock {
  /** Lets another node use the directory. */
  release(): Promise<void>;
}

/**
 * Creates the directory if necessary, and ensures that no other node on this host uses it until this one ends: an
 * abstract Unix socket named after the directory's inode. The kernel frees it with the process, however that ends, so
 * there is no stale lock file. Must come before anything in the directory is read.
 */
export async function lockDataDir(path: string): Promise<DirectoryLock> {
  try {
    await makeFolder(path);
  } catch (error) {
    throw refused(path, `cannot be created (${caughtMessage(error)})`);
  }
  if (process.platform !== 'linux') return { release: () => Promise.resolve() };
  // While it is open no other directory gets its inode, not even after its removal.
  const folder = openSync(path, 'r');
  const { dev, ino } = fstatSync(folder);
  const server = createServer((socket) => socket.destroy()).unref();
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      closeSync(folder);
      reject(error.code === 'EADDRINUSE' ? refused(path, 'in use by another process') : error);
    });
    server.listen(`\0millrace-${dev}-${ino}`, () => resolve());
  });
  server.once('close', () => closeSync(folder));
  return { release: () => new Promise((resolve) => void server.close(() => resolve())) };
}

/**
 * Reads or creates the layout; returns the one in force, with the number of this start, which is not on disk yet.
 * Throws ConfigError with what to change.
 */
export function openDataDir(path: string, wanted: Wanted): Layout & NodeDirectory {
  let names: string[];
  try {
    names = readdirSync(path);
  } catch (error) {
    throw refused(path, `cannot be read (${caughtMessage(error)})`);
  }
  const shards = names.flatMap((name) => SHARD_FOLDER.exec(name)?.[1] ?? []).map(Number);
  if (!names.includes(FILE)) {
    if (shards.length > 0) {
      throw refused(path, `holds shards but no ${FILE}; restore that file or name another directory`);
    }
    // The other nodes of a new cluster agree on an identity with this one; a single node decides alone.
    const clusterId = wanted.single ? draw(CLUSTER_ID_BYTES) : '';
    const fresh = { clusterId, directoryId: draw(DIRECTORY_ID_BYTES), incarnation: 1, migrated: false };
    const nothing = { settled: [], restoredFrom: [], shardRun: undefined };
    return store(path, { format: FORMAT, complete: false, ...wanted, ...fresh, ...nothing });
  }
  const found = read(path);
  const stored = { ...found, format: FORMAT };
  if (stored.nodeId !== wanted.nodeId) {
    throw new ConfigError(`raft.node_id ${wanted.nodeId}: ${path} belongs to node ${stored.nodeId}`);
  }
  if (stored.groupCount !== wanted.groupCount) {
    throw new ConfigError(
      `raft.group_count ${wanted.groupCount}: ${path} was created with ${stored.groupCount} groups, and that never changes`,
    );
  }
  checkShards(path, stored, shards);
  if (!found.complete) beginAgain(path, found, shards);
  if (found.format !== FORMAT) store(path, stored);
  const isOld = stored.directoryId === '';
  return {
    ...stored,
    directoryId: isOld ? draw(DIRECTORY_ID_BYTES) : stored.directoryId,
    migrated: stored.migrated || isOld,
    incarnation: stored.incarnation + 1,
  };
}

/** From now on no earlier copy of the directory can pass for this one. False: there is no room to say so. */
export function countStart(path: string, { directoryId, migrated, incarnation }: NodeDirectory): boolean {
  try {
    store(path, { ...read(path), directoryId, migrated, incarnation });
    return true;
  } catch {
    return false;
  }
}

function draw(bytes: number): string {
  return randomBytes(bytes).toString('hex');
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

/**
 * A first start that ended before all shards were open: none of them has served anything. What a power loss left of
 * their files may not be readable, so they begin again.
 */
function beginAgain(path: string, { format, migrated, directoryId }: Stored, shards: readonly number[]): void {
  // Versions that drew no ids served before they noted that all shards are there.
  if (format !== FORMAT || migrated || directoryId === '') return;
  for (const shard of shards) rmSync(join(path, `shard-${shard}`), { recursive: true });
}

function sizeOf(file: string): number {
  try {
    return statSync(file).size;
  } catch {
    return 0;
  }
}

/**
 * All shards are open: from now on each of them must exist. Their directory entries are on disk when this returns.
 * `shardRun`: all have recorded that start; undefined when one of them could not.
 */
export function completeDataDir(
  path: string,
  { single, shardRun }: Pick<Wanted, 'single'> & Pick<NodeDirectory, 'shardRun'>,
): void {
  const stored = read(path);
  const isNoted = shardRun === undefined || stored.shardRun === shardRun;
  if (stored.complete && stored.single !== undefined && isNoted) return;
  if (!stored.complete) for (let shard = 0; shard < stored.shardCount; shard++) syncPath(join(path, `shard-${shard}`));
  const noted = { single: stored.single ?? single, shardRun: shardRun ?? stored.shardRun };
  try {
    store(path, { ...stored, complete: true, ...noted });
  } catch (error) {
    // Another start will note it.
    if (!stored.complete) throw error;
  }
}

/** Sets the directory's cluster, also in place of `heard`, which was unconfirmed. False: it belongs to another. */
export function noteClusterId(path: string, clusterId: string, heard = ''): boolean {
  const stored = read(path);
  if (stored.clusterId === clusterId) return true;
  if (stored.clusterId !== '' && stored.clusterId !== heard) return false;
  store(path, { ...stored, clusterId });
  return true;
}

interface Settled {
  /** Behind the losses that are noted, or before them. */
  readonly later?: readonly DirectoryStart[];
  readonly earlier?: readonly DirectoryStart[];
}

/** Peers remember runs of this node that this directory has never seen; all shards marked their logs as lost. */
export function noteSettled(path: string, { later = [], earlier = [] }: Settled): boolean {
  const stored = read(path);
  const settled = joinStarts(joinStarts(earlier, stored.settled), later);
  const own = later.filter(({ directory }) => directory === stored.directoryId);
  const incarnation = Math.max(stored.incarnation, ...own.map((run) => run.incarnation));
  store(path, { ...stored, settled, incarnation });
  return true;
}

/** A backup of that cluster was imported. */
export function noteSource(path: string, clusterId: string): boolean {
  const stored = read(path);
  const { restoredFrom } = stored;
  if (!restoredFrom.includes(clusterId))
    store(path, { ...stored, restoredFrom: [...restoredFrom, clusterId].slice(-SOURCES_MAX) });
  return true;
}

function store<T extends Stored>(path: string, stored: T): T {
  const file = join(path, FILE);
  try {
    // All of it, or it throws: a disk that is nearly full takes a part.
    writeFileSync(`${file}.new`, `${JSON.stringify(stored, undefined, 2)}\n`, { mode: 0o600, flush: true });
    renameSync(`${file}.new`, file);
    syncPath(path);
  } catch (error) {
    throw refused(path, `cannot be written (${caughtMessage(error)})`);
  }
  return stored;
}

function read(path: string): Stored {
  let found: unknown;
  try {
    found = JSON.parse(readFileSync(join(path, FILE), 'utf8'));
  } catch (error) {
    throw refused(path, `${FILE} cannot be read (${caughtMessage(error)})`);
  }
  const { format, nodeId, groupCount, shardCount, complete, ...rest } = (found ?? {}) as Partial<Stored>;
  if (!within(format, FORMAT) || format < FORMAT_OLDEST)
    throw refused(
      path,
      `written by another version (format ${String(format)}; this one reads ${FORMAT_OLDEST} to ${FORMAT})`,
    );
  if (!within(nodeId, 2 ** 32) || !within(groupCount, GROUP_COUNT_MAX) || !within(shardCount, groupCount)) {
    throw refused(
      path,
      `${FILE} is damaged: expected node id, group count, and a shard count of at most the group count`,
    );
  }
  return { format, complete: complete === true, nodeId, groupCount, shardCount, ...directoryOf(path, rest) };
}

/** For a tool that starts no node on it. */
export function readLayout(path: string): Layout & NodeDirectory {
  return read(path);
}

function isDirectoryId(found: unknown): boolean {
  return found === '' || (typeof found === 'string' && DIRECTORY_ID.test(found));
}

function isStart(found: Partial<DirectoryStart> | null): boolean {
  return isDirectoryId(found?.directory) && Number.isSafeInteger(found?.incarnation);
}

function directoryOf(path: string, found: Partial<NodeDirectory>): NodeDirectory {
  const {
    clusterId = '',
    directoryId = '',
    incarnation = 0,
    shardRun,
    migrated,
    single,
    settled = [],
    restoredFrom = [],
  } = found;
  const isGood =
    (clusterId === '' || (typeof clusterId === 'string' && CLUSTER_ID.test(clusterId))) &&
    isDirectoryId(directoryId) &&
    Number.isSafeInteger(incarnation) &&
    (shardRun === undefined || within(shardRun, incarnation)) &&
    Array.isArray(settled) &&
    settled.every(isStart) &&
    Array.isArray(restoredFrom);
  if (!isGood)
    throw refused(
      path,
      `${FILE} is damaged: clusterId, directoryId, incarnation, shardRun or settled is not what this wrote`,
    );
  return {
    clusterId,
    directoryId,
    incarnation,
    shardRun,
    migrated: migrated === true,
    single: typeof single === 'boolean' ? single : undefined,
    settled,
    restoredFrom,
  };
}

/** Linux names file systems by these numbers (statfs(2)): tmpfs, ramfs. */
const MEMORY_FILE_SYSTEMS: readonly number[] = [0x01021994, 0x858458f6];

/** True when the directory is in memory: fsync succeeds there without effect. */
export function isVolatile(path: string): boolean {
  return process.platform === 'linux' && MEMORY_FILE_SYSTEMS.includes(statfsSync(path).type);
}

function within(value: unknown, most: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= most;
}
