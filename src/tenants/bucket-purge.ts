/**
 * Erases a tenant in every group, from any node. A group takes as many commands as it needs, each bounded; groups come
 * one after the other, so a purge takes no more than a part of one shard.
 *
 * Nothing is remembered between the commands but where to go on: a purge that was cut off is repeated, and finds what
 * is left. What the streams had in the cold store is then deleted at once.
 */
import type { ErrorCode } from '../base/errors.ts';
import { callGroup } from '../gateway/shard-client.ts';
import type { ShardGateway, WriteGateway } from '../ports.ts';
import { COMMANDS, QUERIES } from '../protocol/operations.ts';

/** The cold store, as far as a purge needs it. Keys that are not there count as removed. */
export interface ColdObjects {
  remove(keys: readonly string[]): Promise<{ readonly ok: boolean }>;
}

export interface PurgeOptions {
  readonly gateway: ShardGateway;
  readonly writes: WriteGateway;
  readonly bucket: string;
  /** Undefined: this node has no cold store. */
  readonly coldObjects: ColdObjects | undefined;
  /** Whether the client still waits for the report. Removed streams stay removed. */
  readonly isWanted: () => boolean;
  readonly logError: (error: unknown, what: string) => void;
}

export interface Purged {
  readonly code: 'OK';
  readonly removedStreams: number;
  readonly groupsWithStreams: readonly number[];
  readonly reclaimedObjects: number;
}

/** It ended at `group`; a repeated call continues. */
export interface PurgeCutOff {
  readonly code: Exclude<ErrorCode, 'OK'>;
  readonly group: number;
  readonly removedStreams: number;
}

/** Purges a bucket in all groups. The result is undefined when the report is not wanted any more. */
export async function purge(options: PurgeOptions): Promise<Purged | PurgeCutOff | undefined> {
  const { gateway, writes, bucket, isWanted } = options;
  /** The number of removed streams by group. */
  const removed: number[] = [];
  const queued: number[] = [];
  for (let group = 0; group < gateway.groupCount; group++) {
    let streams = 0;
    let objects = 0;
    let hasMore = true;
    for (let after = ''; hasMore;) {
      const answer = await callGroup(writes, COMMANDS.purge, group, { bucket, after });
      if (!isWanted()) return undefined;
      if (answer.code !== 'OK') return { code: answer.code, group, removedStreams: total(removed) + streams };
      streams += answer.result.streamsRemoved;
      objects += answer.result.objectsQueued;
      after = answer.result.continueAfter;
      hasMore = answer.result.hasMore;
    }
    removed.push(streams);
    queued.push(objects);
  }
  const reclaimedObjects = await deleteObjects(options, queued);
  const groupsWithStreams = removed.flatMap((count, group) => (count > 0 ? [group] : []));
  return { code: 'OK', removedStreams: total(removed), groupsWithStreams, reclaimedObjects };
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Objects deleted by one call of the store. */
const OBJECTS_AT_ONCE = 256;
/** Entries of one group. */
const ENTRIES_MAX = 4096;

/**
 * The GC pass at the end of a purge: deletes the objects that the groups queued for it, without the usual grace period,
 * and tells the groups. It is an optimization: what fails here stays queued, and the leaders' collectors finish it.
 * Returns the number of deleted objects of the bucket, by any node.
 */
async function deleteObjects(options: PurgeOptions, queued: readonly number[]): Promise<number> {
  let reclaimed = 0;
  for (const [group, count] of queued.entries()) {
    const pass = await deleteOfGroup(options, group, count);
    if (pass === undefined) break;
    reclaimed += pass.reclaimed;
    // A store that does not answer is not asked once for each group.
    if (!pass.isFinished) break;
  }
  return reclaimed;
}

/** The entries that a group had queued and has no more, as far as that is known; `isFinished`: nothing is left. */
interface GroupPass {
  readonly reclaimed: number;
  readonly isFinished: boolean;
}

async function deleteOfGroup(
  { gateway, bucket, coldObjects, logError }: PurgeOptions,
  group: number,
  queued: number,
): Promise<GroupPass | undefined> {
  if (coldObjects === undefined) return undefined;
  let forgotten = 0;
  let deleted = 0;
  let wasRestored = false;
  let from: number | undefined;
  const cutOff = (): GroupPass => ({ reclaimed: wasRestored ? deleted : forgotten, isFinished: false });
  do {
    const garbage = await callGroup(gateway, QUERIES.bucketGarbage, group, { bucket, limit: OBJECTS_AT_ONCE, from });
    if (garbage.code !== 'OK') return cutOff();
    const { isRestored, seqs, keys, next } = garbage.result;
    wasRestored = isRestored;
    from = next;
    if (seqs.length === 0) continue;
    if (forgotten >= ENTRIES_MAX) return cutOff();
    if (keys.length > 0 && !(await isRemoved(coldObjects, keys, logError))) return cutOff();
    const told = await callGroup(gateway, COMMANDS.gcDone, group, { seqs });
    if (told.code !== 'OK') return cutOff();
    forgotten += seqs.length;
    deleted += keys.length;
  } while (from !== undefined);
  // A collector may have been faster. In a restored group it may have taken another cluster's, whose objects stay.
  return { reclaimed: wasRestored ? deleted : Math.max(queued, forgotten), isFinished: true };
}

async function isRemoved(
  objects: ColdObjects,
  keys: readonly string[],
  logError: PurgeOptions['logError'],
): Promise<boolean> {
  try {
    return (await objects.remove(keys)).ok;
  } catch (error) {
    logError(error, 'purge');
    return false;
  }
}
