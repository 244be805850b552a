/**
 * Long-polls: like a catch-up read when there are bytes at the offset; else the request waits until something is appended,
 * the stream is closed or deleted, or its time is over (204). An event that carries the bytes is the answer itself; only
 * requests that an event cannot serve (addressed by records, bounded by max_bytes, or behind) read again.
 */
import type { ErrorCode } from '../../base/errors.ts';
import type { ReplyHandler } from '../../ports.ts';
import { REPLY_CLOSED, REPLY_UP_TO_DATE, Reply } from '../../protocol/reply.ts';
import type { HttpContext, ReadParams, Target } from '../context.ts';
import { ReadCoding, cacheOfRead, cacheOfTurn, isRecordRead, readEtag, writeReadHeaders } from '../read-response.ts';
import type { Responder } from '../response.ts';
import { shownContentType, writeStoredType } from '../stored-type.ts';
import { backpressureOf } from '../backpressure.ts';
import { type ResponseOwner, guardAbort, takeOver } from '../guard.ts';
import type { UwsResponse } from '../uws.ts';
import { Timed } from './clock.ts';
import { cursorFloor, cursorSpan } from './events.ts';
import { type Live, liveOf } from './live.ts';
import { type EventReader, type Member, type ReadPosition, RETRY_MS, type Topic } from './topic.ts';
import {
  READ_FLAG_ENVELOPE,
  READ_FLAG_NO_TOUCH,
  READ_OFFSET,
  READ_RECORD,
  readCreatedAtMs,
  readIncarnation,
  showRead,
} from '../../protocol/read.ts';

const READING = 0;
/** The mailbox was full; the clock tries again. */
const RETRYING = 1;
const WAITING = 2;
/** What it brings is being compressed. */
const PACKING = 3;
const DONE = 4;

/** Serves `live=long-poll`. Call it in the route handler; it takes over `res`. */
export function startLongPoll(
  ctx: HttpContext,
  res: UwsResponse,
  target: Target,
  params: ReadParams,
  responder: Responder,
): void {
  const live = liveOf(ctx);
  const backpressure = backpressureOf(ctx);
  if (live.stopping || live.full || backpressure.full) {
    ctx.metrics.live.refused++;
    const code = live.stopping ? 'STOPPING' : live.full ? 'WATCHERS_FULL' : 'ANSWERS_FULL';
    const status = responder.error(res, target.family, code);
    ctx.metrics.response('long_poll', status, 0);
    return;
  }
  new LongPoll(live, res, target, params, responder).start();
}

class LongPoll extends Timed implements Member, EventReader, ReplyHandler, ResponseOwner {
  readonly operation = 'long_poll';
  readonly #live: Live;
  readonly #ctx: HttpContext;
  readonly #res: UwsResponse;
  readonly #target: Target;
  readonly #params: ReadParams;
  readonly #responder: Responder;
  readonly #topic: Topic;
  readonly #position: ReadPosition;
  readonly #records: boolean;
  readonly #coding: ReadCoding;
  readonly #startedMs: number;
  #state = READING;
  /** The last answer without bytes, for the 204. */
  #tail: Reply | undefined;

  constructor(live: Live, res: UwsResponse, target: Target, params: ReadParams, responder: Responder) {
    super();
    this.#live = live;
    this.#ctx = live.ctx;
    this.#res = res;
    this.#target = target;
    this.#params = params;
    this.#responder = responder;
    this.#records = isRecordRead(params);
    this.#coding = new ReadCoding(live.ctx, params, target.bucket, target.stream);
    this.#startedMs = live.ctx.monotonicMs();
    this.#position = {
      mode: params.mode,
      value: params.value,
      maxBytes: backpressureOf(live.ctx).readBytes(params.maxBytes),
      maxRecords: params.maxRecords,
      readFlags: params.readFlags,
    };
    this.#topic = live.attach(target, this);
    live.ctx.metrics.live.longPolls++;
  }

  start(): void {
    const gone = guardAbort(this.#ctx.logError, this, () => {
      if (this.#state !== DONE) this.#leave();
    });
    takeOver(this.#res, this, gone);
    if (this.#topic.read(this.#position, this)) this.#live.clock.schedule(this, this.#params.timeoutMs);
    else this.#answer(() => this.#responder.error(this.#res, this.#target.family, 'SHARD_BUSY'));
  }

  onReply(reply: Reply): void {
    if (this.#state === DONE) return;
    this.#topic.beforeReply(reply);
    if (reply.code !== 0) {
      this.#answer(() => this.#responder.refusal(this.#res, this.#target.family, reply));
    } else if (this.#tail !== undefined && readIncarnation(reply) !== readIncarnation(this.#tail)) {
      this.onDeleted();
    } else if (reply.nextOffset > reply.startOffset || !reply.has(REPLY_UP_TO_DATE)) {
      this.#bring(reply);
    } else {
      this.#keep(reply);
      // Over without a word to this request: the stream was replaced meanwhile. The client looks again.
      if (reply.has(REPLY_CLOSED) || this.#topic.number === 0 || this.#remainingMs() <= 0) this.#empty();
      else this.#wait();
    }
  }

  onEvent(event: Reply): void {
    const tail = this.#tail;
    if (this.#state !== WAITING || tail === undefined) return;
    const offset = tail.nextOffset;
    const closed = event.has(REPLY_CLOSED);
    if (event.nextOffset <= offset && !closed) return;
    if (event.startOffset !== offset || !this.#servedBy(event)) {
      this.onGap();
    } else if (event.nextOffset > offset) {
      this.#bring(event);
    } else {
      this.#keep(event);
      this.#empty();
    }
  }

  /** Can the event be the answer? A stream that had no type so far got one from this append, so it is read again. */
  #servedBy(event: Reply): boolean {
    if (this.#records || (this.#params.readFlags & READ_FLAG_ENVELOPE) !== 0 || event.contentType === '') return false;
    const bytes = event.nextOffset - event.startOffset;
    return this.#params.maxBytes === 0 || bytes <= this.#params.maxBytes;
  }

  onGap(): void {
    const tail = this.#tail;
    if (this.#state !== WAITING || tail === undefined) return;
    this.#topic.stopWaiting(this);
    this.#position.mode = this.#records ? READ_RECORD : READ_OFFSET;
    this.#position.value = this.#records ? tail.recordNext : tail.nextOffset;
    this.#position.readFlags |= READ_FLAG_NO_TOUCH;
    this.#read();
  }

  #read(): void {
    this.#state = READING;
    if (this.#topic.read(this.#position, this)) {
      this.#live.clock.schedule(this, Math.max(0, this.#remainingMs()));
      return;
    }
    this.#state = RETRYING;
    this.#live.clock.schedule(this, RETRY_MS);
  }

  #wait(): void {
    this.#state = WAITING;
    this.#topic.wait(this);
  }

  onDeleted(): void {
    // It has what it waited for.
    if (this.#state === PACKING) return;
    // The answer to a READ under way says more than this event: the stream may exist anew.
    if (this.#state === READING && this.#tail === undefined) return;
    this.#answer(() => this.#responder.error(this.#res, this.#target.family, 'STREAM_NOT_FOUND'));
  }

  onStop(): void {
    if (this.#tail !== undefined) this.#empty();
    else this.#answer(() => this.#responder.error(this.#res, this.#target.family, 'STOPPING'));
  }

  onTime(): void {
    if (this.#state === RETRYING && this.#remainingMs() > 0) this.#read();
    else if (this.#tail !== undefined) this.#empty();
    // Else the first answer is late. It is answered as soon as it comes, with bytes or without.
  }

  override onTimeFailed(): void {
    this.fail('INTERNAL');
  }

  fail(code: ErrorCode): void {
    if (this.#state !== DONE) this.#answer(() => this.#responder.error(this.#res, this.#target.family, code));
  }

  #remainingMs(): number {
    return this.#startedMs + this.#params.timeoutMs - this.#ctx.monotonicMs();
  }

  /** Remembers position, flags and record range; `reply` belongs to the gateway. */
  #keep(reply: Reply): void {
    const tail = (this.#tail ??= new Reply());
    tail.flags = reply.flags | REPLY_UP_TO_DATE;
    tail.nextOffset = reply.nextOffset;
    tail.startOffset = reply.startOffset;
    tail.recordFirst = reply.recordFirst;
    tail.recordStart = reply.recordNext;
    tail.recordNext = reply.recordNext;
    showRead(tail, readIncarnation(reply), readCreatedAtMs(reply));
  }

  /** Answers with the bytes of an answer or event, or does so when they are compressed. */
  #bring(reply: Reply): void {
    const later = (answer: Reply): void => {
      if (this.#state === PACKING) this.#answer(() => this.#ok(answer));
    };
    if (!this.#coding.defers(reply, later)) return this.#answer(() => this.#ok(reply));
    this.#state = PACKING;
    this.#live.clock.cancel(this);
    this.#topic.stopWaiting(this);
  }

  /** 200 with the bytes of an answer or event, or 304. */
  #ok(reply: Reply): number {
    const coding = this.#coding;
    const tag = readEtag(reply, this.#params);
    const known = coding.known(tag);
    const status = known === undefined ? 200 : 304;
    this.#responder.begin(this.#res, status, cacheOfRead(this.#params, reply));
    writeStoredType(this.#res, shownContentType(reply));
    writeReadHeaders(this.#res, reply, this.#params);
    this.#writeCursor(reply);
    coding.writeHeaders(this.#res, this.#responder, reply);
    this.#res.writeHeader('etag', known ?? coding.etag(tag));
    if (status === 304) {
      this.#res.endWithoutBody();
      return status;
    }
    const body = coding.body(reply);
    if (body === undefined) this.#res.end();
    else backpressureOf(this.#ctx).end(this.#res, body);
    return status;
  }

  /** 204: nothing was appended. */
  #empty(): void {
    const tail = this.#tail as Reply;
    this.#answer(() => {
      this.#responder.begin(this.#res, 204, cacheOfTurn(this.#params));
      writeReadHeaders(this.#res, tail, this.#params);
      this.#writeCursor(tail);
      this.#res.endWithoutBody();
      return 204;
    });
  }

  /** No cursor at the end of a closed stream: there is no next request to make. */
  #writeCursor(reply: Reply): void {
    if (reply.has(REPLY_CLOSED)) return;
    const span = cursorSpan(Date.now());
    const floor = cursorFloor(this.#params.cursor, span, Math.random());
    this.#res.writeHeader('stream-cursor', String(Math.max(floor, span)));
  }

  /** Leaves, then writes: whatever happens while writing finds this request finished. */
  #answer(write: () => number): void {
    this.#leave();
    this.#res.cork(() => {
      const status = write();
      this.#ctx.metrics.response('long_poll', status, (this.#ctx.monotonicMs() - this.#startedMs) * 1000);
    });
  }

  #leave(): void {
    this.#state = DONE;
    this.#live.clock.cancel(this);
    this.#topic.stopWaiting(this);
    this.#live.detach(this.#topic, this);
    this.#ctx.metrics.live.longPolls--;
  }
}
