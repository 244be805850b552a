/** Routes answers and tail events: to the main thread, to another node, or to the shard itself. */
import { ownCopy } from '../base/bytes.ts';
import { errorNumber } from '../base/errors.ts';
import { INLINE_PAYLOAD_BYTES_MAX } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import { type ReplySink, REPLY_RESULT, type Reply } from '../protocol/reply.ts';
import { receiverOf } from '../group/reply-slot.ts';
import type { Proposals } from '../cold/shard/proposals.ts';
import type { ReplyTarget } from './ports.ts';
import type { Replication } from './replication.ts';
import type { TracedSlots } from './traced-slots.ts';

const OUTCOME_UNKNOWN = errorNumber('OUTCOME_UNKNOWN');
const NO_LEADER = errorNumber('NO_LEADER');

/** Writes into the reply ring; large bodies are transferred separately. */
export class RingSink implements ReplySink {
  readonly #target: ReplyTarget;
  readonly traced: TracedSlots;

  constructor(target: ReplyTarget, traced: TracedSlots) {
    this.#target = target;
    this.traced = traced;
  }

  send(reply: Reply): void {
    if (planted('unknown-means-not-done') && reply.code === OUTCOME_UNKNOWN) reply.code = NO_LEADER;
    if (!this.traced.isEmpty && reply.kind === REPLY_RESULT) this.traced.end(reply);
    const body = reply.body;
    if (body !== undefined && body.length > INLINE_PAYLOAD_BYTES_MAX) {
      // The transfer detaches the memory, so it must hold nothing but the body.
      reply.transferId = this.#target.sendTransfer(ownCopy(body));
    }
    const at = this.#target.reserve(reply.bytesMax());
    this.#target.commit(reply.write(this.#target.bytes, this.#target.view, at));
  }
}

export class ReplyRouter implements ReplySink {
  readonly #ring: RingSink;
  readonly #replication: Replication;
  readonly #proposals: Proposals;

  /** `replication` answers requests of other nodes; `proposals` are commands that the shard proposed itself. */
  constructor(ring: RingSink, replication: Replication, proposals: Proposals) {
    this.#ring = ring;
    this.#replication = replication;
    this.#proposals = proposals;
  }

  send(reply: Reply): void {
    const receiver = reply.kind === REPLY_RESULT ? receiverOf(reply.id) : 'client';
    if (receiver === 'client') this.#ring.send(reply);
    else if (receiver === 'node') {
      this.#ring.traced.end(reply);
      this.#replication.answer(reply);
    } else this.#proposals.answered(reply);
  }
}
