/**
 * Writes with a condition, in a cluster that is being upgraded: a node of a version that does not know conditions stops at such a
 * command (command-kinds.ts), and one request would stop all of them. Refused until every node has been met in a newer version.
 */
import { errorNumber } from '../base/errors.ts';
import type { ReplyHandler, ShardGateway } from '../ports.ts';
import { Reply } from '../protocol/reply.ts';
import type { Request } from '../protocol/request.ts';
import { PassThroughGateway } from './pass-through-gateway.ts';

export class ConditionGate extends PassThroughGateway {
  readonly #isUnderstood: () => boolean;

  /** `isUnderstood`: by every node of the cluster. */
  constructor(inner: ShardGateway, isUnderstood: () => boolean) {
    super(inner);
    this.#isUnderstood = isUnderstood;
  }

  send(request: Request, handler: ReplyHandler, shard?: number): boolean {
    if (request.command.condition === '' || this.#isUnderstood()) return this.inner.send(request, handler, shard);
    const reply = new Reply();
    reply.code = errorNumber('UPGRADE_UNFINISHED');
    // No answer comes inside send().
    queueMicrotask(() => handler.onReply(reply));
    return true;
  }
}
