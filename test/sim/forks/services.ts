/** The service for forks that a node's main thread has (src/forks/service/), one in each process, on simulated time. */
import { ForkService } from '../../../src/forks/service/fork-service.ts';
import type { ForkRequest, WriteGateway } from '../../../src/ports.ts';
import { Reply } from '../../../src/protocol/reply.ts';
import type { Request } from '../../../src/protocol/request.ts';
import type { SimProcess } from '../process.ts';
import type { World } from '../world.ts';
import { FORK_GONE } from '../../../src/protocol/fork-gone.ts';

/** Most forks are made of several pieces. */
const PIECE_BYTES = [40, 400, 4000];

/** The name of a stream ends with the number of its group. */
export function groupOfName(name: string): number {
  return Number(name.slice(-1));
}

export class ForkServices {
  readonly #world: World;
  readonly #services = new WeakMap<SimProcess, ForkService>();
  #tokens = 0;

  constructor(world: World) {
    this.#world = world;
  }

  started(process: SimProcess): void {
    const { options } = this.#world;
    const send: WriteGateway['send'] = (request, handler) => {
      process.request(request, false, (reply) => {
        // Answers without a receiver.
        if (reply !== undefined && !process.dead) process.guard(() => handler.onReply(reply));
      });
      return true;
    };
    const service = new ForkService({
      gateway: {
        ...{ groupCount: options.groups.length, shardCount: 1, send },
        groupOf: (_bucket, stream) => groupOfName(stream),
      },
      writes: { send },
      // Quotas are the main thread's.
      reserve: (_bucket, _bytes, done) => done({ used: () => undefined, end: () => undefined }),
      runtime: process.runtime,
      newToken: () => ++this.#tokens,
      pieceBytes: PIECE_BYTES[options.seed % PIECE_BYTES.length] as number,
    });
    this.#services.set(process, service);
    service.start();
  }

  /** Through a node; `onAnswer` is called once, or never when the process dies. */
  create(process: SimProcess, request: Request, forkRequest: ForkRequest, onAnswer: (reply: Reply) => void): void {
    const taken = this.#services.get(process)?.create(request, forkRequest, { onReply: onAnswer });
    if (taken !== true) onAnswer(new Reply());
  }

  /** As the HTTP side does after a DELETE; not always, because nodes die there too. */
  tell(process: SimProcess, group: number, reply: Reply): void {
    const gone = reply.code === 0 ? FORK_GONE.read(reply) : undefined;
    if (gone !== undefined) this.#services.get(process)?.tell(group, gone, () => undefined);
  }
}
