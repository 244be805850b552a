/**
 * Writes with a condition, in a cluster that is being upgraded: a node of a version that does not know conditions stops at such a
 * command (command-kinds.ts), and one request would stop all of them. Refused until every node has been met in a newer version.
 */
import { errorNumber } from '../base/errors.ts';
import type { ReplyHandler, ShardGateway } from '../ports.ts';
import { Reply } from '../wire/reply.ts';
import type { Request } from '../wire/request.ts';

export class ConditionGate implements ShardGateway {
  readonly #inner: ShardGateway;
  readonly #isUnderstood: () => boolean;

  /** `isUnderstood`: by every node of the cluster. */
  constructor(inner: ShardGateway, isUnderstood: () => boolean) {
    this.#inner = inner;
    this.#isUnderstood = isUnderstood;
  }

  get groupCount(): number {
    return this.#inner.groupCount;
  }

  get shardCount(): number {
    return this.#inner.shardCount;
  }

  groupOf(bucket: string, stream: string): number {
    return this.#inner.groupOf(bucket, stream);
  }

  openTopic(handler: Parameters<ShardGateway['openTopic']>[0]): number {
    return this.#inner.openTopic(handler);
  }

  closeTopic(topic: number, group: number): void {
    this.#inner.closeTopic(topic, group);
  }

  send(request: Request, handler: ReplyHandler, shard?: number): boolean {
    if (request.command.condition === '' || this.#isUnderstood()) return this.#inner.send(request, handler, shard);
    const reply = new Reply();
    reply.code = errorNumber('UPGRADE_UNFINISHED');
    // No answer comes inside send().
    queueMicrotask(() => handler.onReply(reply));
    return true;
  }
}
