/**
 * DELETE /__svc/purge/{bucket}: erases a tenant in every group, from any node (service.md "Purge rules"). A group takes as many
 * commands as it needs, each bounded; groups come one after the other, so a purge takes no more than a part of one shard.
 *
 * Nothing is remembered between the commands but where to go on: a purge that was cut off is repeated, and finds what is left.
 */
import { type ErrorCode, errorCode } from '../base/errors.ts';
import type { ReplyHandler } from '../ports.ts';
import { encodePurge } from '../wire/bucket-command.ts';
import { COMMAND_PURGE } from '../wire/command.ts';
import type { Reply } from '../wire/reply.ts';
import { newRequest } from '../wire/request.ts';
import { Gathering } from './gather.ts';
import type { Plane } from './plane.ts';
import type { ServiceCall } from './service-call.ts';

export function handlePurge({ plane, res, responder, startedMs }: ServiceCall, bucket: string): void {
  const gathering = new Gathering(plane, res, responder, 'bucket', startedMs);
  new Purge(plane, gathering, bucket).start();
}

class Purge implements ReplyHandler {
  readonly #plane: Plane;
  readonly #gathering: Gathering;
  readonly #bucket: string;
  readonly #request = newRequest();
  #removed = 0;
  #removedInGroup = 0;
  readonly #groups: number[] = [];

  constructor(plane: Plane, gathering: Gathering, bucket: string) {
    this.#plane = plane;
    this.#gathering = gathering;
    this.#bucket = bucket;
    this.#request.op = COMMAND_PURGE;
    this.#request.group = 0;
    this.#request.command.kind = COMMAND_PURGE;
    this.#request.command.bucket = bucket;
  }

  start(): void {
    this.#send('');
  }

  onReply(reply: Reply): void {
    // Whoever asked may be gone; what was removed stays removed.
    if (this.#gathering.isOver) return;
    const code = errorCode(reply.code);
    if (code !== 'OK') return this.#stop(code);
    this.#removedInGroup += reply.a;
    if (reply.b === 1) return this.#send(reply.text);
    if (this.#removedInGroup > 0) this.#groups.push(this.#request.group);
    this.#removed += this.#removedInGroup;
    this.#removedInGroup = 0;
    this.#request.group++;
    if (this.#request.group < this.#plane.ctx.gateway.groupCount) return this.#send('');
    return this.#report();
  }

  #send(after: string): void {
    this.#request.command.payload = encodePurge(after);
    if (!this.#plane.ctx.gateway.send(this.#request, this)) this.#stop('SHARD_BUSY');
  }

  #stop(code: ErrorCode): void {
    const removed = this.#removed + this.#removedInGroup;
    const where = `group ${this.#request.group} was not finished`;
    this.#gathering.refuse(code, `${where}, ${removed} streams are removed; repeat the purge to go on`);
  }

  #report(): void {
    this.#gathering.json(200, {
      bucket: this.#bucket,
      removed_streams: this.#removed,
      groups_with_streams: this.#groups,
      cold_gc_entries_reclaimed: 0,
    });
  }
}
