/**
 * Large JSON bodies on their way to their shard. A pool checks and normalises them, so that neither the main thread nor
 * the shard of the leader stands still meanwhile: 30 MB take a tenth of a second. A refused one goes to the leader too,
 * which refuses in the usual order.
 */
import { ownCopy } from '../base/bytes.ts';
import { JSON_POOLED_BYTES_MAX, JSON_POOLED_BYTES_MIN } from '../base/limits.ts';
import type { ReplyHandler } from '../ports.ts';
import type { BodyMark } from '../protocol/checked-body.ts';
import { isJson } from '../protocol/media-type.ts';
import { COMMANDS, byNumber, commandsWhere } from '../protocol/operations.ts';
import type { CommandTraits } from '../protocol/operation.ts';
import { Reply } from '../protocol/reply.ts';
import type { Request } from '../protocol/request.ts';

export interface JsonTask {
  readonly body: ArrayBuffer;
  readonly mayBringNoRecords: boolean;
}

export interface CheckedBody {
  readonly mark: BodyMark;
  readonly payload: ArrayBuffer;
}

/** Takes the memory of the body. Rejects when the pool has no threads. */
export type CheckJson = (task: JsonTask) => Promise<CheckedBody>;

interface Open {
  readonly handler: ReplyHandler;
}

export interface JsonBodiesOptions {
  readonly check: CheckJson;
  /** As ShardGateway.send, past this check. The payload's memory may be taken. */
  readonly send: (request: Request, handler: ReplyHandler) => boolean;
  readonly onError: (error: unknown) => void;
}

const WITH_MESSAGE = commandsWhere(({ body }) => body === 'message');
const TRAITS = byNumber<CommandTraits>(COMMANDS);

export class JsonBodies {
  readonly #options: JsonBodiesOptions;
  readonly #open = new Set<Open>();
  #bytes = 0;

  constructor(options: JsonBodiesOptions) {
    this.#options = options;
  }

  /** Requests whose bodies are being checked. */
  get pending(): number {
    return this.#open.size;
  }

  takes({ op, command: { payload, contentType } }: Request): boolean {
    if (payload === undefined || payload.length <= JSON_POOLED_BYTES_MIN) return false;
    return WITH_MESSAGE.has(op) && isJson(contentType);
  }

  /** By the rules of ShardGateway.send. */
  take(request: Request, handler: ReplyHandler): boolean {
    const { payload, attributes } = request.command;
    const bytes = payload?.length ?? 0;
    if (payload === undefined || this.#bytes + bytes > JSON_POOLED_BYTES_MAX) return false;
    this.#bytes += bytes;
    const open = { handler };
    this.#open.add(open);
    const command = { ...request.command, payload: undefined, attributes: attributes && ownCopy(attributes) };
    const mayBringNoRecords = TRAITS[request.op]?.mayBringNoRecords === true;
    const { buffer } = ownCopy(payload);
    void this.#check({ ...request, command }, open, { body: buffer, mayBringNoRecords }, bytes);
    return true;
  }

  /** Answers all with STOPPING. */
  close(): void {
    for (const open of this.#open) this.#refuse(open, 'STOPPING');
  }

  async #check(request: Request, open: Open, task: JsonTask, bytes: number): Promise<void> {
    let isSent = false;
    try {
      const { mark, payload } = await this.#options.check(task);
      request.bodyMark = mark;
      request.command.payload = new Uint8Array(payload);
      isSent = this.#open.has(open) && this.#options.send(request, open.handler);
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.#bytes -= bytes;
    }
    if (isSent) this.#open.delete(open);
    else this.#refuse(open, 'SHARD_BUSY');
  }

  #refuse(open: Open, code: 'SHARD_BUSY' | 'STOPPING'): void {
    if (!this.#open.delete(open)) return;
    try {
      open.handler.onReply(new Reply().refuse(0, code));
    } catch (error) {
      this.#options.onError(error);
    }
  }
}
