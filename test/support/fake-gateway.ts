// The common part of the tests' fake gateways: shards that do not exist, and topics that the test can reach.
import type { ReplyHandler, ShardGateway, TailHandler } from '../../src/ports.ts';
import type { Request } from '../../src/protocol/request.ts';

export abstract class FakeGateway implements ShardGateway {
  readonly groupCount: number;
  readonly shardCount: number;
  /** Handlers of open topics by number; numbers are never reused. */
  readonly topics = new Map<number, TailHandler>();
  readonly closedTopics: number[] = [];
  #topicCount = 0;

  constructor(groupCount: number, shardCount: number) {
    this.groupCount = groupCount;
    this.shardCount = shardCount;
  }

  abstract send(request: Request, handler: ReplyHandler, shard?: number): boolean;

  groupOf(bucket: string, stream: string): number {
    return (bucket.length + stream.length) % this.groupCount;
  }

  openTopic(handler: TailHandler): number {
    const topic = ++this.#topicCount;
    this.topics.set(topic, handler);
    return topic;
  }

  closeTopic(topic: number): void {
    this.topics.delete(topic);
    this.closedTopics.push(topic);
  }
}
