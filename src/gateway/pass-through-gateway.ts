/** Base of gateways that only inspect requests; everything else passes through to the shards. */
import type { ReplyHandler, ShardGateway } from '../ports.ts';
import type { Request } from '../protocol/request.ts';

export abstract class PassThroughGateway implements ShardGateway {
  protected readonly inner: ShardGateway;

  constructor(inner: ShardGateway) {
    this.inner = inner;
  }

  get groupCount(): number {
    return this.inner.groupCount;
  }

  get shardCount(): number {
    return this.inner.shardCount;
  }

  groupOf(bucket: string, stream: string): number {
    return this.inner.groupOf(bucket, stream);
  }

  openTopic(handler: Parameters<ShardGateway['openTopic']>[0]): number {
    return this.inner.openTopic(handler);
  }

  closeTopic(topic: number, group: number): void {
    this.inner.closeTopic(topic, group);
  }

  abstract send(request: Request, handler: ReplyHandler, shard?: number): boolean;
}
