/** A node's main thread, as the product's own export and import see its shard. */
import type { ReplyHandler, ShardGateway } from '../../../src/ports.ts';
import type { Reply } from '../../../src/protocol/reply.ts';
import type { Request } from '../../../src/protocol/request.ts';
import type { SimProcess } from '../process.ts';
import type { World } from '../world.ts';

export interface GatewayParts {
  readonly world: World;
  readonly process: SimProcess;
  readonly groupCount: number;
  /** In place of the one that the requests name: a document goes into another group than it came from. */
  readonly group: number;
  /** Sees requests, and answers before their requester does. */
  readonly onSend?: (request: Request) => void;
  readonly onReply?: (request: Request, reply: Reply) => void;
}

const unused = (): never => {
  throw new Error('backups do not use this');
};

/** Answers after the death of the process are lost. */
export function gatewayOf({ world, process, groupCount, group, onSend, onReply }: GatewayParts): ShardGateway {
  const answer = (asked: Request, reply: Reply | undefined, handler: ReplyHandler): void => {
    if (reply === undefined || process.dead) return;
    guarded(world, () => {
      onReply?.(asked, reply);
      handler.onReply(reply);
    });
  };
  return {
    groupCount,
    shardCount: 1,
    groupOf: unused,
    send: (request, handler) => {
      if (process.dead) return true;
      // The caller may use its request again.
      const asked = { ...request, group, command: { ...request.command } };
      onSend?.(asked);
      process.request(asked, false, (reply) => answer(asked, reply, handler));
      return true;
    },
    openTopic: unused,
    closeTopic: unused,
  };
}

/** An exception of the product there would end its process. */
export function guarded(world: World, work: () => void): void {
  try {
    work();
  } catch (error) {
    throw world.failure(`backup: ${String(error)}`, error);
  }
}
