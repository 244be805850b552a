/**
 * Access to the shards for code off the hot path, with answers typed by operation: one call to a shard as a promise, or
 * one to all shards or groups with a callback when all have answered. Calls that are repeated until they succeed:
 * retry.ts.
 */
import { type ErrorCode, errorCode } from '../base/errors.ts';
import { decodeUtf8 } from '../base/utf8.ts';
import type { ReplyHandler, ShardGateway } from '../ports.ts';
import { explanation } from '../protocol/refusal.ts';
import type { Reply } from '../protocol/reply.ts';
import { ALL_GROUPS, type Request, newRequest, setOperation } from '../protocol/request.ts';

/** An entry of the operations table. */
export interface Callable<R> {
  readonly number: number;
  readonly result: { read(reply: Reply): R };
}

/** The stream's position and related fields, for every operation. */
interface Common {
  readonly flags: number;
  readonly startOffset: number;
  readonly nextOffset: number;
  readonly recordFirst: number;
  readonly recordStart: number;
  readonly recordNext: number;
  /** Empty when there is none. */
  readonly body: string;
}

export interface Accepted<R> extends Common {
  readonly code: 'OK';
  readonly result: R;
}

export interface Refused extends Common {
  readonly code: Exclude<ErrorCode, 'OK'>;
  /** The compared values; may be empty. */
  readonly detail: string;
}

/** The kept part of a reply, whose memory is reused after the callback. */
export type Answer<R> = Accepted<R> | Refused;

function keep<R>(operation: Callable<R>, reply: Reply): Answer<R> {
  const { flags, startOffset, nextOffset, recordFirst, recordStart, recordNext } = reply;
  const body = reply.body === undefined ? '' : decodeUtf8(reply.body);
  const common = { flags, startOffset, nextOffset, recordFirst, recordStart, recordNext, body };
  const code = errorCode(reply.code);
  if (code === 'OK') return { ...common, code, result: operation.result.read(reply) };
  return { ...common, code, detail: explanation(reply) };
}

const BUSY: Refused = {
  ...{ flags: 0, startOffset: 0, nextOffset: 0, recordFirst: 0, recordStart: 0, recordNext: 0 },
  ...{ code: 'SHARD_BUSY', detail: '', body: '' },
};

function begin<R>(operation: Callable<R>, fill: (request: Request) => void): Request {
  const request = newRequest();
  setOperation(request, operation);
  fill(request);
  return request;
}

export interface CallOptions<R> {
  /** For queries about all groups of one shard. */
  readonly shard?: number;
  /**
   * Receives the answer in order among the shard's events; the promise settles after the events that arrived with it.
   */
  readonly atOnce?: (answer: Answer<R>) => void;
}

/** `fill` sets group and parameters. A full mailbox answers SHARD_BUSY. */
export function call<R>(
  gateway: ShardGateway,
  operation: Callable<R>,
  fill: (request: Request) => void,
  { shard, atOnce }: CallOptions<R> = {},
): Promise<Answer<R>> {
  return new Promise((resolve) => {
    const onReply = (reply: Reply): void => {
      const answer = keep(operation, reply);
      atOnce?.(answer);
      resolve(answer);
    };
    if (!gateway.send(begin(operation, fill), { onReply }, shard)) resolve(BUSY);
  });
}

/** For one stream: sets its group and name. */
export function callStream<R>(
  gateway: ShardGateway,
  operation: Callable<R>,
  { bucket, stream }: { readonly bucket: string; readonly stream: string },
  fill?: (request: Request) => void,
): Promise<Answer<R>> {
  return call(gateway, operation, (request) => {
    request.group = gateway.groupOf(bucket, stream);
    request.command.bucket = bucket;
    request.command.stream = stream;
    fill?.(request);
  });
}

/** `done` receives one answer per shard, in order, and never inside this call when a shard was reached. */
export function callShards<R>(
  gateway: ShardGateway,
  operation: Callable<R>,
  fill: (request: Request) => void,
  done: (answers: Answer<R>[]) => void,
): void {
  const collector = new Collector(operation, gateway.shardCount, done);
  const request = begin(operation, fill);
  request.group = ALL_GROUPS;
  for (let shard = 0; shard < gateway.shardCount; shard++) {
    if (!gateway.send(request, collector.handler(shard), shard)) collector.put(shard, BUSY);
  }
}

/** `done` receives one answer per group, in order. */
export function callGroups<R>(
  gateway: ShardGateway,
  operation: Callable<R>,
  fill: (request: Request) => void,
  done: (answers: Answer<R>[]) => void,
): void {
  const collector = new Collector(operation, gateway.groupCount, done);
  const request = begin(operation, fill);
  for (let group = 0; group < gateway.groupCount; group++) {
    request.group = group;
    if (!gateway.send(request, collector.handler(group))) collector.put(group, BUSY);
  }
}

class Collector<R> {
  readonly #operation: Callable<R>;
  readonly #answers: Answer<R>[] = [];
  readonly #done: (answers: Answer<R>[]) => void;
  #waiting: number;

  constructor(operation: Callable<R>, count: number, done: (answers: Answer<R>[]) => void) {
    this.#operation = operation;
    this.#waiting = count;
    this.#done = done;
  }

  handler(index: number): ReplyHandler {
    return { onReply: (reply: Reply): void => this.put(index, keep(this.#operation, reply)) };
  }

  put(index: number, answer: Answer<R>): void {
    this.#answers[index] = answer;
    this.#waiting--;
    if (this.#waiting === 0) this.#done(this.#answers);
  }
}

/** The first answer that is neither OK nor one of `tolerated`. */
export function firstRefusal(answers: readonly Answer<unknown>[], ...tolerated: ErrorCode[]): Refused | undefined {
  for (const answer of answers) if (answer.code !== 'OK' && !tolerated.includes(answer.code)) return answer;
  return undefined;
}

/** Of those that were given. */
export function resultsOf<R>(answers: readonly Answer<R>[]): R[] {
  return answers.flatMap((answer) => (answer.code === 'OK' ? [answer.result] : []));
}
