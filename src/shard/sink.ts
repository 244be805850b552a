/** Writes answers and tail events into the reply ring; bodies that would hog the ring go beside it. */
import { INLINE_PAYLOAD_BYTES_MAX } from '../base/limits.ts';
import type { ReplySink } from '../group/watchers.ts';
import type { Plan } from '../stream/read.ts';
import { REPLY_HEAD_BYTES, type Reply } from '../wire/reply.ts';
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

  sendPlanned(reply: Reply, plan: Plan): void {
    const size = plan.bodyBytes;
    this.sent++;
    this.bodyBytes += size;
    const { bytes, view } = this.#target;
    if (size > INLINE_PAYLOAD_BYTES_MAX) {
      const body = new Uint8Array(size);
      plan.fill(body, 0);
      reply.laneId = this.#target.sendLane(body);
      const at = this.#target.reserve(reply.bytesMax());
      const written = reply.write(bytes, view, at);
      view.setUint32(at + 16, size, true);
      this.#target.commit(written);
      return;
    }
    const at = this.#target.reserve(REPLY_HEAD_BYTES + 3 * reply.contentType.length + size);
    const written = reply.write(bytes, view, at);
    plan.fill(bytes, at + written);
    view.setUint32(at + 16, size, true);
    this.#target.commit(written + size);
  }
}
