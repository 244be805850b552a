/** Writes answers and tail events into the reply ring; bodies that would hog the ring go beside it. */
import { INLINE_PAYLOAD_BYTES_MAX } from '../base/limits.ts';
import type { ReplySink } from '../group/watchers.ts';
import type { Reply } from '../wire/reply.ts';
import type { ReplyTarget } from './ports.ts';

export class RingSink implements ReplySink {
  readonly #target: ReplyTarget;
  sent = 0;
  bodyBytes = 0;

  constructor(target: ReplyTarget) {
    this.#target = target;
  }

  send(reply: Reply): void {
    const body = reply.body;
    if (body !== undefined && body.length > INLINE_PAYLOAD_BYTES_MAX) {
      // The lane takes the memory away, so it must be the body's alone.
      reply.laneId = this.#target.sendLane(body.slice());
    }
    const at = this.#target.reserve(reply.bytesMax());
    this.#target.commit(reply.write(this.#target.bytes, this.#target.view, at));
    this.sent++;
    this.bodyBytes += body?.length ?? 0;
  }
}
