/**
 * Erases a tenant in every group, from any node. A group takes as many commands as it needs, each bounded; groups come
 * one after the other, so a purge takes no more than a part of one shard.
 *
 * Nothing is remembered between the commands but where to go on: a purge that was cut off is repeated, and finds what
 * is left. What the streams had in the cold store is then deleted at once.
 */
import { type ErrorCode, errorCode } from '../base/errors.ts';
import type { ReplyHandler, ShardGateway, WriteGateway } from '../ports.ts';
import { COMMANDS, QUERIES } from '../protocol/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import { requestFor } from '../protocol/request.ts';

export interface PurgeOptions {
  readonly gateway: ShardGateway;
  readonly writes: WriteGateway;
  readonly bucket: string;
  /** Undefined: this node has no cold store. */
  readonly coldObjects: ColdObjects | undefined;
  /** Whether the client still waits for the report. Removed streams stay removed. */
  isWanted(): boolean;
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

export function purge(options: PurgeOptions, done: (report: Purged | PurgeCutOff) => void): void {
  new Purge(options, done).start();
}

class Purge implements ReplyHandler {
  readonly #options: PurgeOptions;
  readonly #done: (report: Purged | PurgeCutOff) => void;
  #group = -1;
  readonly #removed: number[] = [];
  /** Objects that the groups queued for deletion. */
  readonly #queued: number[] = [];

  constructor(options: PurgeOptions, done: (report: Purged | PurgeCutOff) => void) {
    this.#options = options;
    this.#done = done;
  }

  start(): void {
    this.#nextGroup();
  }

  onReply(reply: Reply): void {
    if (!this.#options.isWanted()) return;
    const code = errorCode(reply.code);
    if (code !== 'OK') return this.#cutOff(code);
    const group = this.#group;
    const { streamsRemoved, objectsQueued, hasMore, continueAfter } = COMMANDS.purge.result.read(reply);
    this.#removed[group] = (this.#removed[group] ?? 0) + streamsRemoved;
    this.#queued[group] = (this.#queued[group] ?? 0) + objectsQueued;
    if (hasMore) this.#send(continueAfter);
    else this.#nextGroup();
  }

  #nextGroup(): void {
    const { gateway, coldObjects, bucket, logError } = this.#options;
    this.#group++;
    if (this.#group < gateway.groupCount) return this.#send('');
    if (coldObjects === undefined) return this.#report(0);
    return deleteObjects({ gateway, objects: coldObjects, bucket, logError }, this.#queued, (reclaimed) =>
      this.#report(reclaimed),
    );
  }

  #send(after: string): void {
    const { writes, bucket } = this.#options;
    if (!writes.send(requestFor(COMMANDS.purge, this.#group, { bucket, after }), this)) this.#cutOff('SHARD_BUSY');
  }

  #cutOff(code: PurgeCutOff['code']): void {
    this.#done({ code, group: this.#group, removedStreams: total(this.#removed) });
  }

  #report(reclaimedObjects: number): void {
    const groupsWithStreams = this.#removed.flatMap((count, group) => (count > 0 ? [group] : []));
    this.#done({ code: 'OK', removedStreams: total(this.#removed), groupsWithStreams, reclaimedObjects });
  }
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/**
 * The GC pass at the end of a purge: deletes the objects that the groups queued for it, without the usual grace period,
 * and tells the groups. It is an optimization: what fails here stays queued, and the leaders' collectors finish it.
 */

/** The cold store, as far as a purge needs it; never rejects. Keys that are not there count as removed. */
export interface ColdObjects {
  remove(keys: readonly string[]): Promise<{ readonly ok: boolean }>;
}

/** Whose objects are deleted, and where. */
export interface ObjectsPass {
  readonly gateway: ShardGateway;
  readonly objects: ColdObjects;
  readonly bucket: string;
  readonly logError: (error: unknown, what: string) => void;
}

/** Objects deleted by one call of the store. */
const OBJECTS_AT_ONCE = 256;
/** Rounds of one group: 4096 entries. */
const ROUNDS_MAX = 16;

/**
 * `queued` counts by group. `done` receives the number of deleted objects of the bucket, by any node. For a restored
 * group it counts only those deleted here, because a collector's entries may have been another cluster's, whose objects
 * stay.
 */
export function deleteObjects(pass: ObjectsPass, queued: readonly number[], done: (reclaimed: number) => void): void {
  let reclaimed = 0;
  const next = (group: number): void => {
    if (group === queued.length) return done(reclaimed);
    const groupPass = new GroupPass(pass, { group, queued: queued[group] ?? 0 }, (count, end) => {
      reclaimed += count;
      // A store that does not answer is not asked once for each group.
      if (end === 'finished') next(group + 1);
      else done(reclaimed);
    });
    return groupPass.ask();
  };
  next(0);
}

/** One group, and how many objects it queued. */
interface GroupQueue {
  readonly group: number;
  readonly queued: number;
}

/** Whether the pass has seen all that the group queued. */
type GroupEnd = 'finished' | 'given-up';
type GroupDone = (reclaimed: number, end: GroupEnd) => void;

class GroupPass implements ReplyHandler {
  readonly #pass: ObjectsPass;
  readonly #group: number;
  readonly #done: GroupDone;
  /** Entries that there were. */
  #entries: number;
  #left: number;
  #deleted = 0;
  #restored = false;
  #rounds = 0;

  constructor(pass: ObjectsPass, { group, queued }: GroupQueue, done: GroupDone) {
    this.#pass = pass;
    this.#entries = queued;
    this.#left = queued;
    this.#done = done;
    this.#group = group;
  }

  ask(): void {
    const { gateway, bucket } = this.#pass;
    const request = requestFor(QUERIES.bucketGarbage, this.#group, { bucket, limit: OBJECTS_AT_ONCE });
    if (!gateway.send(request, this)) this.#end('given-up');
  }

  onReply(reply: Reply): void {
    if (reply.code !== 0 || reply.body === undefined) return this.#end('given-up');
    const { entries, isRestored, seqs, keys } = QUERIES.bucketGarbage.result.read(reply);
    this.#left = entries;
    this.#restored = isRestored;
    // A collector may have been faster, or an earlier purge may have left some.
    this.#entries = Math.max(this.#entries, entries);
    if (entries === 0) return this.#end('finished');
    if (this.#rounds++ === ROUNDS_MAX) return this.#end('given-up');
    if (keys.length === 0) return this.#tell(seqs, 0);
    this.#pass.objects.remove(keys).then(
      ({ ok }) => (ok ? this.#tell(seqs, keys.length) : this.#end('given-up')),
      (error: unknown) => {
        this.#pass.logError(error, 'purge');
        this.#end('given-up');
      },
    );
    return undefined;
  }

  #tell(seqs: readonly number[], deleted: number): void {
    const sent = this.#pass.gateway.send(requestFor(COMMANDS.gcDone, this.#group, { seqs }), {
      onReply: (reply) => {
        if (reply.code !== 0) return this.#end('given-up');
        this.#deleted += deleted;
        return this.ask();
      },
    });
    if (!sent) this.#end('given-up');
  }

  #end(end: GroupEnd): void {
    this.#done(this.#restored ? this.#deleted : Math.max(0, this.#entries - this.#left), end);
  }
}
