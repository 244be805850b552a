/**
 * Erases a tenant in every group, from any node. A group takes as many commands as it needs, each bounded; groups come
 * one after the other, so a purge takes no more than a part of one shard.
 *
 * Nothing is remembered between the commands but where to go on: a purge that was cut off is repeated, and finds what
 * is left. What the streams had in the cold store is then deleted at once (purge-objects.ts).
 */
import { type ErrorCode, errorCode } from '../base/errors.ts';
import type { ReplyHandler, ShardGateway } from '../ports.ts';
import { COMMANDS } from '../protocol/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import { requestFor } from '../protocol/request.ts';
import { type ColdObjects, deleteObjects } from './purge-objects.ts';

export interface PurgeOptions {
  readonly gateway: ShardGateway;
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
    const { gateway, bucket } = this.#options;
    if (!gateway.send(requestFor(COMMANDS.purge, this.#group, { bucket, after }), this)) this.#cutOff('SHARD_BUSY');
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
