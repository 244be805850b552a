/** Writes answers and tail events into the reply ring; bodies that would hog the ring go beside it. */
import { errorNumber } from '../base/errors.ts';
import { INLINE_PAYLOAD_BYTES_MAX } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import type { ReplySink } from '../group/reply-sink.ts';
import { REPLY_RESULT, type Reply } from '../protocol/reply.ts';
import { OWN_SLOTS } from '../cold/shard/proposals.ts';
import { REMOTE_SLOTS } from './forwarding.ts';
import type { ReplyTarget } from './ports.ts';

const OUTCOME_UNKNOWN = errorNumber('OUTCOME_UNKNOWN');
const NO_LEADER = errorNumber('NO_LEADER');

export class RingSink implements ReplySink {
  readonly #target: ReplyTarget;
  /** Answers to requests that other nodes sent here. */
  remote: ((reply: Reply) => void) | undefined = undefined;
  /** Answers to commands that the shard proposed for itself. */
  own: ((reply: Reply) => void) | undefined = undefined;
  sent = 0;
  bodyBytes = 0;

  constructor(target: ReplyTarget) {
    this.#target = target;
  }

  send(reply: Reply): void {
    if (reply.kind === REPLY_RESULT && reply.id >= OWN_SLOTS) {
      if (reply.id >= REMOTE_SLOTS) this.remote?.(reply);
      else this.own?.(reply);
      return;
    }
    if (planted('unknown-means-not-done') && reply.code === OUTCOME_UNKNOWN) reply.code = NO_LEADER;
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
