/**
 * Refuses conditional writes until every node of the cluster has been seen in a version that knows conditions. An older
 * node stops at such a command (command-layout.ts), so one request during an upgrade would stop all of them.
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
    // Answers never come inside send().
    queueMicrotask(() => handler.onReply(reply));
    return true;
  }
}
