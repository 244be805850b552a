/**
 * DELETE /__svc/purge/{bucket}: erases a tenant in every group, from any node. A group takes as many
 * commands as it needs, each bounded; groups come one after the other, so a purge takes no more than a part of one shard.
 *
 * Nothing is remembered between the commands but where to go on: a purge that was cut off is repeated, and finds what is left.
 * What the streams had in the cold store is then deleted at once (purge-objects.ts).
 */
import { type ErrorCode, errorCode } from '../../../base/errors.ts';
import type { ReplyHandler } from '../../../ports.ts';
import { encodePurge } from '../../../protocol/bucket-command.ts';
import type { Reply } from '../../../protocol/reply.ts';
import { newRequest } from '../../../protocol/request.ts';
import { Gathering } from '../../gather.ts';
import type { Plane } from '../../plane.ts';
import { type ColdObjects, deleteObjects } from './purge-objects.ts';
import type { ServiceCall } from './service-call.ts';
import { COMMANDS } from '../../../protocol/operations.ts';

export type { ColdObjects } from './purge-objects.ts';

export function handlePurge(call: ServiceCall, bucket: string, coldObjects: ColdObjects | undefined): void {
  const { plane, res, responder, startedMs } = call;
  const gathering = new Gathering(plane, res, responder, 'bucket', startedMs);
  new Purge(plane, gathering, bucket, coldObjects).start();
}

class Purge implements ReplyHandler {
  readonly #plane: Plane;
  readonly #gathering: Gathering;
  readonly #bucket: string;
  readonly #coldObjects: ColdObjects | undefined;
  readonly #request = newRequest();
  readonly #removed: number[] = [];
  /** Objects that the groups queued for deletion. */
  readonly #queued: number[] = [];

  constructor(plane: Plane, gathering: Gathering, bucket: string, coldObjects: ColdObjects | undefined) {
    this.#plane = plane;
    this.#gathering = gathering;
    this.#bucket = bucket;
    this.#coldObjects = coldObjects;
    this.#request.op = COMMANDS.purge.number;
    this.#request.group = -1;
    this.#request.command.kind = COMMANDS.purge.number;
    this.#request.command.bucket = bucket;
  }

  start(): void {
    this.#nextGroup();
  }

  onReply(reply: Reply): void {
    // Whoever asked may be gone; what was removed stays removed.
    if (this.#gathering.isOver) return;
    const code = errorCode(reply.code);
    if (code !== 'OK') return this.#stop(code);
    const { group } = this.#request;
    this.#removed[group] = (this.#removed[group] ?? 0) + reply.a;
    this.#queued[group] = (this.#queued[group] ?? 0) + reply.c;
    if (reply.b === 1) this.#send(reply.text);
    else this.#nextGroup();
  }

  #nextGroup(): void {
    this.#request.group++;
    if (this.#request.group < this.#plane.ctx.gateway.groupCount) return this.#send('');
    if (this.#coldObjects === undefined) return this.#report(0);
    return deleteObjects(this.#plane, this.#coldObjects, this.#bucket, this.#queued, (reclaimed) => {
      this.#gathering.guard(() => this.#report(reclaimed));
    });
  }

  #send(after: string): void {
    this.#request.command.payload = encodePurge(after);
    if (!this.#plane.ctx.gateway.send(this.#request, this)) this.#stop('SHARD_BUSY');
  }

  #stop(code: ErrorCode): void {
    const where = `group ${this.#request.group} was not finished`;
    this.#gathering.refuse(code, `${where}, ${total(this.#removed)} streams are removed; repeat the purge to go on`);
  }

  #report(reclaimed: number): void {
    this.#gathering.json(200, {
      bucket: this.#bucket,
      removed_streams: total(this.#removed),
      groups_with_streams: this.#removed.flatMap((count, group) => (count > 0 ? [group] : [])),
      cold_gc_entries_reclaimed: reclaimed,
    });
  }
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
