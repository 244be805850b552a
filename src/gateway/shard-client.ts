/**
 * Access to the shards for code off the hot path, with answers typed by operation: one call to a shard as a promise, or
 * one to all shards or groups with a callback when all have answered. Calls that are repeated until they succeed:
 * retry.ts.
 */
import { type ErrorCode, errorCode } from '../base/errors.ts';
import type { ReplyHandler, ShardGateway, WriteGateway } from '../ports.ts';
import { explanation, type Reply } from '../protocol/reply.ts';
import type { StreamName } from '../protocol/flat-path.ts';
import { type Retrying, sendUntilDone } from './retry.ts';
import { ALL_GROUPS, type Asking, type Request, requestFor } from '../protocol/request.ts';

/** An entry of the operations table. */
export interface Callable<P, R> extends Asking<P> {
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
export type ShardAnswer<R> = Accepted<R> | Refused;

function keep<R>(operation: Callable<never, R>, reply: Reply): ShardAnswer<R> {
  const { flags, startOffset, nextOffset, recordFirst, recordStart, recordNext } = reply;
  const common = { flags, startOffset, nextOffset, recordFirst, recordStart, recordNext };
  const code = errorCode(reply.code);
  if (code !== 'OK') return { ...common, code, detail: explanation(reply) };
  try {
    return { ...common, code, result: operation.result.read(reply) };
  } catch (error) {
    // An error thrown here would leave the caller without an answer.
    return { ...common, code: 'INTERNAL', detail: error instanceof Error ? error.message : '' };
  }
}

const BUSY: Refused = {
  ...{ flags: 0, startOffset: 0, nextOffset: 0, recordFirst: 0, recordStart: 0, recordNext: 0 },
  ...{ code: 'SHARD_BUSY', detail: '' },
};

export interface CallOptions<R> {
  /** Receives the answer in order among the shard's events; the promise settles after events that came with it. */
  readonly atOnce?: ((answer: ShardAnswer<R>) => void) | undefined;
  /** Repeats the call; the answer is the last one. */
  readonly retry?: Pick<Retrying, 'clock' | 'policy' | 'isWanted'> | undefined;
}

/** A full mailbox answers SHARD_BUSY. */
export function callGroup<P, R>(
  gateway: Pick<ShardGateway, 'send'>,
  operation: Callable<P, R>,
  group: number,
  asked: P,
  options: CallOptions<R> = {},
): Promise<ShardAnswer<R>> {
  return send(gateway, operation, { ...options, request: requestFor(operation, group, asked) });
}

/** About one stream, whose name says which group that is. */
export function callStream<P extends StreamName, R>(
  gateway: ShardGateway,
  operation: Callable<P, R>,
  asked: P,
): Promise<ShardAnswer<R>> {
  return callGroup(gateway, operation, gateway.groupOf(asked.bucket, asked.stream), asked);
}

/** About all groups of one shard. */
export function callShard<P, R>(
  gateway: ShardGateway,
  operation: Callable<P, R>,
  shard: number,
  asked: P,
  options: CallOptions<R> = {},
): Promise<ShardAnswer<R>> {
  return send(gateway, operation, { ...options, request: requestFor(operation, ALL_GROUPS, asked), shard });
}

interface Sending<R> extends CallOptions<R> {
  readonly request: Request;
  readonly shard?: number;
}

function send<R>(
  gateway: Pick<ShardGateway, 'send'>,
  operation: Callable<never, R>,
  { request, shard, atOnce, retry }: Sending<R>,
): Promise<ShardAnswer<R>> {
  return new Promise((resolve) => {
    const done = (answer: ShardAnswer<R>): void => {
      atOnce?.(answer);
      resolve(answer);
    };
    if (retry !== undefined) return callUntilDone({ gateway, shard, ...retry }, operation, request, done);
    const onReply = (reply: Reply): void => done(keep(operation, reply));
    if (!gateway.send(request, { onReply }, shard)) resolve(BUSY);
  });
}

/** For a caller whose next step belongs into the callback of the answer. */
export function callUntilDone<R>(
  retrying: Retrying,
  operation: Callable<never, R>,
  request: Request,
  done: (answer: ShardAnswer<R>) => void,
): void {
  sendUntilDone(retrying, request, (reply) => done(reply === undefined ? BUSY : keep(operation, reply)));
}

/** `done` receives one answer per shard, in order, and never inside this call when a shard was reached. */
export function callShards<P, R>(
  gateway: ShardGateway,
  operation: Callable<P, R>,
  asked: P,
  done: (answers: ShardAnswer<R>[]) => void,
): void {
  const collector = new Collector(operation, gateway.shardCount, done);
  const request = requestFor(operation, ALL_GROUPS, asked);
  for (let shard = 0; shard < gateway.shardCount; shard++) {
    if (!gateway.send(request, collector.handler(shard), shard)) collector.put(shard, BUSY);
  }
}

/** `done` receives one answer per group, in order. */
export function callGroups<P, R>(
  gateway: WriteGateway,
  operation: Callable<P, R>,
  asked: P,
  done: (answers: ShardAnswer<R>[]) => void,
): void {
  const collector = new Collector(operation, gateway.groupCount, done);
  const request = requestFor(operation, 0, asked);
  for (let group = 0; group < gateway.groupCount; group++) {
    request.group = group;
    if (!gateway.send(request, collector.handler(group))) collector.put(group, BUSY);
  }
}

class Collector<R> {
  readonly #operation: Callable<never, R>;
  readonly #answers: ShardAnswer<R>[] = [];
  readonly #done: (answers: ShardAnswer<R>[]) => void;
  #waiting: number;

  constructor(operation: Callable<never, R>, count: number, done: (answers: ShardAnswer<R>[]) => void) {
    this.#operation = operation;
    this.#waiting = count;
    this.#done = done;
  }

  handler(index: number): ReplyHandler {
    return { onReply: (reply: Reply): void => this.put(index, keep(this.#operation, reply)) };
  }

  put(index: number, answer: ShardAnswer<R>): void {
    this.#answers[index] = answer;
    this.#waiting--;
    if (this.#waiting === 0) this.#done(this.#answers);
  }
}

/** The first answer that is neither OK nor one of `tolerated`. */
export function firstRefusal(answers: readonly ShardAnswer<unknown>[], ...tolerated: ErrorCode[]): Refused | undefined {
  for (const answer of answers) if (answer.code !== 'OK' && !tolerated.includes(answer.code)) return answer;
  return undefined;
}

/** The results of the answers that are not refusals. */
export function resultsOf<R>(answers: readonly ShardAnswer<R>[]): R[] {
  return answers.flatMap((answer) => (answer.code === 'OK' ? [answer.result] : []));
}
