/**
 * Long-polls: like a catch-up read when there are bytes at the offset; else the request waits until something is
 * appended, the stream is closed or deleted, or its time is over (204). An event that carries the bytes is the answer
 * itself; only requests that an event cannot serve (addressed by records, bounded by max_bytes, or behind) read again.
 */
import type { ErrorCode } from '../../base/errors.ts';
import { READ_FLAG_ENVELOPE, readCreatedAtMs, readIncarnation, showRead } from '../../protocol/queries/read.ts';
import { REPLY_CLOSED, REPLY_UP_TO_DATE, Reply } from '../../protocol/reply.ts';
import type { ReadParams } from '../context.ts';
import { ReadCoding, cacheOfTurn, readEtag, writeReadHeaders } from '../read-response.ts';
import type { RequestContext } from '../request.ts';
import type { UwsResponse } from '../uws.ts';
import { cursorFloor, cursorSpan } from '../../topics/events.ts';
import { AWAITING, DONE, LiveReader, READING, RETRYING, startReader } from './reader.ts';

const WAITING = 3;
/** The answer's bytes are being compressed. */
const PACKING = 4;

/** Serves `live=long-poll`. Call it in the route handler. */
export function startLongPoll(call: RequestContext, params: ReadParams): void {
  const { live } = call.server.node;
  call.operation = 'long_poll';
  const refusal = live.refusal ?? (live.backpressure.full ? 'ANSWERS_FULL' : undefined);
  return startReader(call, refusal, () => new LongPoll(call, params));
}

class LongPoll extends LiveReader {
  readonly #params: ReadParams;
  readonly #coding: ReadCoding;
  readonly #startedMs: number;
  /** The last reply without bytes, from which the 204 is made. */
  #tail: Reply | undefined;

  constructor(call: RequestContext, params: ReadParams) {
    super(call, params, call.server.backpressure.readBytes(params.maxBytes), 'longPolls');
    this.#params = params;
    this.#coding = new ReadCoding(call, params);
    this.#startedMs = this.ctx.monotonicMs();
  }

  protected override appoint(): void {
    this.live.clock.schedule(this, this.#params.timeoutMs);
  }

  override onReply(reply: Reply): void {
    if (this.state === DONE) return;
    this.topic.beforeReply(reply);
    if (reply.code !== 0) {
      if (!this.awaits(reply)) this.leave()?.refuseReply(reply);
    } else if (this.#tail !== undefined && readIncarnation(reply) !== readIncarnation(this.#tail)) {
      this.onDeleted();
    } else if (reply.nextOffset > reply.startOffset || !reply.has(REPLY_UP_TO_DATE)) {
      this.#bring(reply);
    } else {
      this.#keep(reply);
      // Over without a word to this request: the stream was replaced meanwhile. The client looks again.
      if (reply.has(REPLY_CLOSED) || this.topic.number === 0 || this.#remainingMs() <= 0) this.#empty();
      else this.#wait();
    }
  }

  override onEvent(event: Reply): void {
    const tail = this.#tail;
    if (this.state !== WAITING || tail === undefined) return;
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
    if (this.records || (this.#params.readFlags & READ_FLAG_ENVELOPE) !== 0 || event.contentType === '') return false;
    const bytes = event.nextOffset - event.startOffset;
    return this.#params.maxBytes === 0 || bytes <= this.#params.maxBytes;
  }

  override onGap(): void {
    if (this.state === AWAITING) return void this.read();
    const tail = this.#tail;
    if (this.state !== WAITING || tail === undefined) return;
    this.topic.stopWaiting(this);
    this.moveTo(tail.nextOffset, tail.recordNext);
    this.#readOn();
  }

  #readOn(): void {
    if (this.read()) this.live.clock.schedule(this, Math.max(0, this.#remainingMs()));
  }

  #wait(): void {
    this.state = WAITING;
    this.topic.wait(this);
  }

  override onDeleted(): void {
    // It has what it waited for.
    if (this.state === PACKING) return;
    // The answer to a READ under way says more than this event: the stream may have been recreated.
    if (this.state === READING && this.#tail === undefined) return;
    this.fail('STREAM_NOT_FOUND');
  }

  override onStop(): void {
    if (this.#tail !== undefined) this.#empty();
    else this.fail('STOPPING');
  }

  override onTime(): void {
    if (this.state === RETRYING && this.#remainingMs() > 0) this.#readOn();
    else if (this.#tail !== undefined) this.#empty();
    else if (this.state === AWAITING) this.fail('STREAM_NOT_FOUND');
    else if (this.state === RETRYING) this.fail('SHARD_BUSY');
    // Else the first answer is late. It is answered as soon as it comes, with bytes or without.
  }

  override fail(code: ErrorCode): void {
    this.leave()?.refuse(code);
  }

  #remainingMs(): number {
    return this.#startedMs + this.#params.timeoutMs - this.ctx.monotonicMs();
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
    this.call?.meters.spend(reply.body?.length ?? 0);
    const later = (answer: Reply): void => {
      if (this.state === PACKING) this.#answer((res, call) => this.#ok(call, res, answer));
    };
    if (!this.#coding.defers(reply, later)) {
      return this.#answer((res, call) => this.#ok(call, res, reply));
    }
    this.state = PACKING;
    this.live.clock.cancel(this);
    this.topic.stopWaiting(this);
  }

  /** 200 with the bytes of an answer or event, or 304. */
  #ok(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const cursor = reply.has(REPLY_CLOSED) ? undefined : this.#cursor();
    return this.#coding.write(call, res, reply, { tag: readEtag(reply, this.#params), cursor });
  }

  /** 204: nothing was appended. */
  #empty(): void {
    const tail = this.#tail as Reply;
    this.#answer((res, { responder }) => {
      responder.begin(res, 204, cacheOfTurn(this.#params));
      writeReadHeaders(res, tail, this.#params);
      // At the end of a closed stream there is no next request to make.
      if (!tail.has(REPLY_CLOSED)) res.writeHeader('stream-cursor', this.#cursor());
      res.endWithoutBody();
      return 204;
    });
  }

  #cursor(): string {
    const span = cursorSpan(Date.now());
    return String(Math.max(cursorFloor(this.#params.cursor, span, Math.random()), span));
  }

  /** Leaves, then writes: whatever happens while writing finds this request finished. */
  #answer(render: (res: UwsResponse, call: RequestContext) => number): void {
    const call = this.leave();
    call?.respond((res) => render(res, call));
  }
}
