/** Long-polls and event streams share this: a place among the readers of a topic, reads from there, and one end. */
import { type ErrorCode, errorCode } from '../../base/errors.ts';
import type { ReplyHandler } from '../../ports.ts';
import { READ_FLAG_AWAIT, READ_FLAG_NO_TOUCH } from '../../protocol/queries/read.ts';
import { READ_OFFSET, READ_RECORD } from '../../protocol/read-fields.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { HttpContext, ReadParams } from '../context.ts';
import { isRecordRead } from '../query.ts';
import type { Answer, RequestContext } from '../request.ts';
import { Timed } from '../../topics/clock.ts';
import type { Live } from './live.ts';
import {
  type EventReader,
  type Member,
  type ReadPosition,
  RETRY_MS,
  type Topic,
  beginAtStart,
} from '../../topics/topic.ts';
import { refuseLimited } from '../limited.ts';

export const READING = 0;
/** The mailbox was full; the clock tries again. */
export const RETRYING = 1;
export const DONE = 2;
/** The stream is not there, and the request waits until it is made. */
export const AWAITING = 5;

/** The metric that counts the readers of one kind. */
type Gauge = 'longPolls' | 'sseReaders';

/** Starts one more live reader, or refuses the request when there is no room. */
export function startReader(call: RequestContext, refusal: ErrorCode | undefined, make: () => LiveReader): void {
  const limited = refusal === undefined ? call.meters.addReader() : undefined;
  if (refusal === undefined && limited === undefined) return make().start();
  call.server.ctx.metrics.live.refused++;
  if (limited !== undefined) return refuseLimited(call, limited);
  if (refusal !== undefined) return call.refuse(refusal);
}

export abstract class LiveReader extends Timed implements Member, EventReader, ReplyHandler, Answer {
  protected readonly live: Live;
  protected readonly ctx: HttpContext;
  /** The request that is served; undefined once it is answered or its client is gone. */
  protected call: RequestContext | undefined;
  protected readonly topic: Topic;
  protected readonly position: ReadPosition;
  /** The request names its position by records, not by bytes. */
  protected readonly records: boolean;
  protected state = READING;
  readonly #gauge: Gauge;
  /** Until then it awaits a stream that is not there. */
  readonly #awaitEndMs: number;

  constructor(call: RequestContext, params: ReadParams, maxBytes: number, gauge: Gauge) {
    super();
    const { bucket, stream, gateway, server } = call;
    const { live } = server.node;
    this.live = live;
    this.ctx = live.ctx;
    this.call = call;
    this.records = isRecordRead(params);
    const { mode, value, maxRecords, readFlags } = params;
    const mayAwait = params.wait === 'create';
    this.#awaitEndMs = mayAwait ? this.ctx.monotonicMs() + params.timeoutMs : -Infinity;
    this.position = { mode, value, maxBytes, maxRecords, readFlags: readFlags | (mayAwait ? READ_FLAG_AWAIT : 0) };
    this.topic = live.attach({ bucket, stream, group: gateway.groupOf(bucket, stream) }, this);
    this.#gauge = gauge;
    this.ctx.metrics.live[gauge]++;
  }

  start(): void {
    this.call?.follow(this);
    if (this.topic.read(this.position, this)) this.appoint();
    else this.fail('SHARD_BUSY');
  }

  /** Tells the clock when to call this reader. */
  protected abstract appoint(): void;
  abstract fail(code: ErrorCode): void;
  abstract onReply(reply: Reply): void;
  abstract onEvent(event: Reply): void;
  abstract onDeleted(): void;
  abstract onGap(): void;
  abstract onStop(): void;

  override get requestId(): string | undefined {
    return this.call?.requestId;
  }

  override onTimeFailed(): void {
    this.fail('INTERNAL');
  }

  gone(): void {
    this.leave();
  }

  /** Sets where the next read begins. Only the first read renews a sliding lifetime. */
  protected moveTo(offset: number, record: number): void {
    this.position.mode = this.records ? READ_RECORD : READ_OFFSET;
    this.position.value = this.records ? record : offset;
    this.position.readFlags |= READ_FLAG_NO_TOUCH;
  }

  /** Returns false when the mailbox is full; the clock tries again then. */
  protected read(): boolean {
    this.state = READING;
    if (this.topic.read(this.position, this)) return true;
    this.retryLater();
    return false;
  }

  /** The stream is not there: the topic says when to look again, and the clock when to give up. False: it is over. */
  protected awaits({ code }: Reply): boolean {
    const leftMs = this.#awaitEndMs - this.ctx.monotonicMs();
    if (errorCode(code) !== 'STREAM_NOT_FOUND' || leftMs <= 0 || this.topic.number === 0) return false;
    this.state = AWAITING;
    beginAtStart(this.position);
    this.live.clock.schedule(this, leftMs);
    return true;
  }

  protected retryLater(): void {
    this.state = RETRYING;
    this.live.clock.schedule(this, RETRY_MS);
  }

  /** The context, to be answered or ended; undefined when that has happened. */
  protected leave(): RequestContext | undefined {
    const { call } = this;
    if (call === undefined) return undefined;
    this.call = undefined;
    this.state = DONE;
    this.live.clock.cancel(this);
    this.topic.stopWaiting(this);
    this.live.detach(this.topic, this);
    this.ctx.metrics.live[this.#gauge]--;
    return call;
  }
}
