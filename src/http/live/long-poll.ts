/**
 * Long-polls: like a catch-up read when there are bytes at the offset; else the request waits until something is appended,
 * the stream is closed or deleted, or its time is over (204). An event that carries the bytes is the answer itself; only
 * requests that an event cannot serve (addressed by records, bounded by max_bytes, or behind) read again.
 */
import type { ErrorCode } from '../../base/errors.ts';
import type { ReplyHandler } from '../../ports.ts';
import { REPLY_CLOSED, REPLY_UP_TO_DATE, Reply } from '../../protocol/reply.ts';
import type { HttpContext, ReadParams } from '../context.ts';
import { ReadCoding, cacheOfRead, cacheOfTurn, readEtag, writeReadHeaders } from '../read-response.ts';
import { isRecordRead } from '../query.ts';
import type { Responder } from '../response.ts';
import { shownContentType, writeStoredType } from '../stored-type.ts';
import type { Answer, RequestContext } from '../request.ts';
import type { UwsResponse } from '../uws.ts';
import { Timed } from './clock.ts';
import { cursorFloor, cursorSpan } from './events.ts';
import type { Live } from './live.ts';
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

/** Serves `live=long-poll`. Call it in the route handler. */
export function startLongPoll(call: RequestContext, params: ReadParams): void {
  const { live } = call.server.node;
  call.operation = 'long_poll';
  if (live.stopping || live.full || live.backpressure.full) {
    live.ctx.metrics.live.refused++;
    return call.refuse(live.stopping ? 'STOPPING' : live.full ? 'WATCHERS_FULL' : 'ANSWERS_FULL');
  }
  return new LongPoll(live, call, params).start();
}

class LongPoll extends Timed implements Member, EventReader, ReplyHandler, Answer {
  readonly #live: Live;
  readonly #ctx: HttpContext;
  /** Undefined once it is answered. */
  #call: RequestContext | undefined;
  readonly #params: ReadParams;
  readonly #topic: Topic;
  readonly #position: ReadPosition;
  readonly #records: boolean;
  readonly #coding: ReadCoding;
  readonly #startedMs: number;
  #state = READING;
  /** The last answer without bytes, for the 204. */
  #tail: Reply | undefined;

  constructor(live: Live, call: RequestContext, params: ReadParams) {
    super();
    const { bucket, stream } = call;
    this.#live = live;
    this.#ctx = live.ctx;
    this.#call = call;
    this.#params = params;
    this.#records = isRecordRead(params);
    this.#coding = new ReadCoding(call, params);
    this.#startedMs = live.ctx.monotonicMs();
    this.#position = {
      mode: params.mode,
      value: params.value,
      maxBytes: live.backpressure.readBytes(params.maxBytes),
      maxRecords: params.maxRecords,
      readFlags: params.readFlags,
    };
    this.#topic = live.attach({ bucket, stream, group: call.gateway.groupOf(bucket, stream) }, this);
    live.ctx.metrics.live.longPolls++;
  }

  override get requestId(): string | undefined {
    return this.#call?.requestId;
  }

  start(): void {
    this.#call?.follow(this);
    if (this.#topic.read(this.#position, this)) this.#live.clock.schedule(this, this.#params.timeoutMs);
    else this.fail('SHARD_BUSY');
  }

  onReply(reply: Reply): void {
    if (this.#state === DONE) return;
    this.#topic.beforeReply(reply);
    if (reply.code !== 0) {
      this.#leave()?.refuseReply(reply);
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
    // The answer to a READ under way says more than this event: the stream may have been recreated.
    if (this.#state === READING && this.#tail === undefined) return;
    this.fail('STREAM_NOT_FOUND');
  }

  onStop(): void {
    if (this.#tail !== undefined) this.#empty();
    else this.fail('STOPPING');
  }

  onTime(): void {
    if (this.#state === RETRYING && this.#remainingMs() > 0) this.#read();
    else if (this.#tail !== undefined) this.#empty();
    // Else the first answer is late. It is answered as soon as it comes, with bytes or without.
  }

  override onTimeFailed(): void {
    this.fail('INTERNAL');
  }

  gone(): void {
    this.#leave();
  }

  fail(code: ErrorCode): void {
    this.#leave()?.refuse(code);
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
      if (this.#state === PACKING) this.#answer((res, responder) => this.#ok(res, responder, answer));
    };
    if (!this.#coding.defers(reply, later)) {
      return this.#answer((res, responder) => this.#ok(res, responder, reply));
    }
    this.#state = PACKING;
    this.#live.clock.cancel(this);
    this.#topic.stopWaiting(this);
  }

  /** 200 with the bytes of an answer or event, or 304. */
  #ok(res: UwsResponse, responder: Responder, reply: Reply): number {
    const coding = this.#coding;
    const tag = readEtag(reply, this.#params);
    const known = coding.known(tag);
    const status = known === undefined ? 200 : 304;
    responder.begin(res, status, cacheOfRead(this.#params, reply));
    writeStoredType(res, shownContentType(reply));
    writeReadHeaders(res, reply, this.#params);
    this.#writeCursor(res, reply);
    coding.writeHeaders(res, responder, reply);
    res.writeHeader('etag', known ?? coding.etag(tag));
    if (status === 304) {
      res.endWithoutBody();
      return status;
    }
    const body = coding.body(reply);
    if (body === undefined) res.end();
    else this.#live.backpressure.end(res, body, coding.memory(reply));
    return status;
  }

  /** 204: nothing was appended. */
  #empty(): void {
    const tail = this.#tail as Reply;
    this.#answer((res, responder) => {
      responder.begin(res, 204, cacheOfTurn(this.#params));
      writeReadHeaders(res, tail, this.#params);
      this.#writeCursor(res, tail);
      res.endWithoutBody();
      return 204;
    });
  }

  /** No cursor at the end of a closed stream: there is no next request to make. */
  #writeCursor(res: UwsResponse, reply: Reply): void {
    if (reply.has(REPLY_CLOSED)) return;
    const span = cursorSpan(Date.now());
    const floor = cursorFloor(this.#params.cursor, span, Math.random());
    res.writeHeader('stream-cursor', String(Math.max(floor, span)));
  }

  /** Leaves, then writes: whatever happens while writing finds this request finished. */
  #answer(render: (res: UwsResponse, responder: Responder) => number): void {
    const call = this.#leave();
    call?.respond((res) => render(res, call.responder));
  }

  /** The context, to be answered; undefined when that has happened. */
  #leave(): RequestContext | undefined {
    const call = this.#call;
    if (call === undefined) return undefined;
    this.#call = undefined;
    this.#state = DONE;
    this.#live.clock.cancel(this);
    this.#topic.stopWaiting(this);
    this.#live.detach(this.#topic, this);
    this.#ctx.metrics.live.longPolls--;
    return call;
  }
}
