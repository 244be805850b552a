/**
 * A run of the process on its data directory, begun in steps, so that a shard's folder
 * that is an older copy than the rest is noticed:
 *
 *   1. every shard opens its store and says in which start it was last used; nothing is written yet
 *   2. that is held against millrace.json
 *   3. millrace.json counts this start
 *   4. every shard notes this start
 *   5. millrace.json notes that every shard has
 *   6. the shards begin: only now they vote, replicate and answer
 *
 * So a shard that has done anything in a start carries its number, and so does millrace.json. After a crash between two
 * steps a shard lies between the start that all have noted and the one that was counted, however often that happens.
 */
import type { Logger } from '../logging/logger.ts';
import type { ShardRun } from '../store/rows.ts';
import { type NodeDirectory, completeDataDir, countStart, refused } from './data-dir.ts';

/** The run that a shard has noted; undefined: none; torn: its note is lost with a page, and so is all it had. */
export type LastRun = ShardRun | 'torn' | undefined;

/** The shards, before they begin. */
export interface OpenedShards {
  /** Resolves when all shards are open, with the last run of each. */
  opened(): Promise<readonly LastRun[]>;
  /** Each notes the run, on disk. False: one of them has no room for that. */
  note(directory: string, incarnation: number): Promise<boolean>;
}

/** Returns what holds in this run; a start that was not counted has no directory id, so peers do not hear of it. */
export async function beginRun<T extends NodeDirectory>(
  path: string,
  directory: T,
  { shards, single, log }: { readonly shards: OpenedShards; readonly single: boolean; readonly log: Logger },
): Promise<T> {
  const why = whyNotOneDirectory(directory, await shards.opened(), single);
  if (why !== undefined) throw refused(path, why);
  const { directoryId, incarnation } = directory;
  // A full disk must not keep a node from serving what it has.
  const isCounted = countStart(path, directory);
  const isNoted = isCounted && (await shards.note(directoryId, incarnation));
  if (!isNoted)
    log.warn(
      { path, start: incarnation },
      'this start could not be noted: an older copy may go unnoticed until the next one',
    );
  completeDataDir(path, { single, shardRun: isNoted ? incarnation : undefined });
  return isCounted ? directory : { ...directory, directoryId: '' };
}

/** The sentence for the operator when what is there was not last used together. */
export function whyNotOneDirectory(
  directory: NodeDirectory,
  found: readonly LastRun[],
  single: boolean,
): string | undefined {
  const whole = single
    ? 'bring back the whole directory from one copy, or restore a backup into an empty one'
    : 'bring back the whole directory from one copy, or start on an empty one and run allow-rejoin';
  for (const [shard, run] of found.entries()) {
    const why = whyForeign(directory, shard, run);
    if (why !== undefined) return `${why}; put back the shard-${shard} that belongs to the rest, or ${whole}`;
  }
  return undefined;
}

function whyForeign(directory: NodeDirectory, shard: number, run: LastRun): string | undefined {
  const { directoryId, incarnation, shardRun } = directory;
  const name = `shard-${shard}`;
  if (run === 'torn') return undefined;
  if (run === undefined) {
    if (shardRun === undefined) return undefined;
    return `${name} does not say when it was last used, but millrace.json says that every shard noted start ${shardRun}, so it is an older copy or another directory's`;
  }
  if (run.directory !== directoryId)
    return `${name} is of directory ${run.directory}, but millrace.json of directory ${directoryId}`;
  if (run.shard !== shard) return `${name} holds shard ${run.shard} of this directory`;
  if (shardRun !== undefined && run.incarnation < shardRun)
    return `${name} was last used in start ${run.incarnation}, but millrace.json says that every shard noted start ${shardRun}, so ${name} is an older copy`;
  const counted = incarnation - 1;
  if (run.incarnation > counted)
    return `${name} was last used in start ${run.incarnation}, but millrace.json has counted ${counted}, so millrace.json is an older copy and other shards may be`;
  return undefined;
}
