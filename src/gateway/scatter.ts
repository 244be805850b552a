/** One question to all shards, or one command to all groups, and one answer made of the parts. Not for hot paths. */
import { type ErrorCode, errorCode } from '../base/errors.ts';
import { decodeUtf8 } from '../base/utf8.ts';
import type { ReplyHandler, ShardGateway } from '../ports.ts';
import type { Reply } from '../protocol/reply.ts';
import { ALL_GROUPS, type Request } from '../protocol/request.ts';

/** What is kept of one reply; its memory is gone after the callback. */
export interface Part {
  readonly code: ErrorCode;
  readonly text: string;
  /** Empty when the reply had none. */
  readonly body: string;
  readonly a: number;
  readonly b: number;
  readonly c: number;
  /** BUCKET: its quota, -1 = no bound. */
  readonly streamsMax: number;
  readonly retainedBytesMax: number;
}

class Collector {
  readonly #parts: Part[] = [];
  readonly #done: (parts: Part[]) => void;
  #waiting: number;

  constructor(count: number, done: (parts: Part[]) => void) {
    this.#waiting = count;
    this.#done = done;
  }

  handler(index: number): ReplyHandler {
    return {
      onReply: (reply: Reply): void => {
        this.put(index, {
          code: errorCode(reply.code),
          text: reply.text,
          body: reply.body === undefined ? '' : decodeUtf8(reply.body),
          a: reply.a,
          b: reply.b,
          c: reply.c,
          streamsMax: reply.recordStart,
          retainedBytesMax: reply.recordNext,
        });
      },
    };
  }

  put(index: number, part: Part): void {
    this.#parts[index] = part;
    this.#waiting--;
    if (this.#waiting === 0) this.#done(this.#parts);
  }
}

const BUSY: Part = { code: 'SHARD_BUSY', text: '', body: '', a: 0, b: 0, c: 0, streamsMax: -1, retainedBytesMax: -1 };

/** `done` gets one part for each shard, in their order, never inside this call when a shard was reached. */
export function askAllShards(gateway: ShardGateway, request: Request, done: (parts: Part[]) => void): void {
  const collector = new Collector(gateway.shardCount, done);
  request.group = ALL_GROUPS;
  for (let shard = 0; shard < gateway.shardCount; shard++) {
    if (!gateway.send(request, collector.handler(shard), shard)) collector.put(shard, BUSY);
  }
}

/** `done` gets one part for each group, in their order. */
export function tellAllGroups(gateway: ShardGateway, request: Request, done: (parts: Part[]) => void): void {
  const collector = new Collector(gateway.groupCount, done);
  for (let group = 0; group < gateway.groupCount; group++) {
    request.group = group;
    if (!gateway.send(request, collector.handler(group))) collector.put(group, BUSY);
  }
}

/** The first part that is neither OK nor one of `tolerated`. */
export function firstRefusal(parts: readonly Part[], ...tolerated: ErrorCode[]): Part | undefined {
  return parts.find((part) => part.code !== 'OK' && !tolerated.includes(part.code));
}
