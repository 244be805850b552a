/**
 * Event streams. A reader first reads up to the tail in bounded steps, each a data and a control event, and then takes
 * the frames of its topic's feed. Whenever it is not exactly where a frame begins, it reads again from its own offset.
 *
 *   READING ──answer reaches the tail──► LIVE ──socket too full──► DRAINING ──drained──► READING
 *      ▲ └──answer does not──► READING    │ frame begins elsewhere ──► READING
 *   RETRYING (mailbox was full)           └ closed, deleted, lifetime over, client gone ──► DONE
 *
 * Frames that arrive while a READ is under way are ignored: the READ was sent after the reader had missed something,
 * and its answer either covers them or is not up to date, and then the reader reads again.
 */
import { type ErrorCode, ERRORS, errorCode } from '../../base/errors.ts';
import { READER_BUFFER_BYTES_MAX } from '../../base/limits.ts';
import { READ_FLAG_ENVELOPE, readIncarnation } from '../../protocol/queries/read.ts';
import { REPLY_CLOSED, REPLY_RECORDS, REPLY_UP_TO_DATE, type Reply } from '../../protocol/reply.ts';
import type { EventType, ReadParams } from '../context.ts';
import { whenWritable } from '../guard.ts';
import type { RequestContext } from '../request.ts';
import { SLOT_MS } from '../../topics/clock.ts';
import { EventSocket, viewOf, writeStreamHead } from './event-socket.ts';
import {
  COMMENT,
  VIEW_TEXT,
  type View,
  cursorFloor,
  cursorSpan,
  errorEvent,
  sendableBytes,
} from '../../topics/events.ts';
import type { FeedBatch, FeedReader } from '../../topics/feed.ts';
import { AWAITING, DONE, LiveReader, RETRYING, startReader } from './reader.ts';
import { render } from '../../topics/rendered-events.ts';
import { RETRY_MS } from '../../topics/topic.ts';

/** A step smaller than the longest UTF-8 character could never be sent. */
const STEP_BYTES_MIN = 4;
/** A full socket is probed this often, which also keeps uWebSockets.js from closing it after 10 s without a write. */
const PROBE_MS = 5_000;
/** Lifetimes differ by up to this part, so that a thousand readers who came together do not come back together. */
const LIFETIME_SPREAD = 0.1;

const DRAINING = 3;
const LIVE = 4;

/** Serves `live=sse`. Call it in the route handler. */
export function startSse(call: RequestContext, params: ReadParams): void {
  call.operation = 'sse_open';
  return startReader(call, call.server.node.live.refusal, () => new SseReader(call, params));
}

/** The part of an answer that goes to the reader. */
interface Delivery {
  /** Bytes of the answer's body that are sent now. */
  readonly bytes: number;
  readonly upToDate: boolean;
  readonly closed: boolean;
}

class SseReader extends LiveReader implements FeedReader {
  /** The client's own bound of one data event. */
  readonly #stepBytesMax: number;
  readonly #requestedCursor: number | undefined;
  #sawEnd: boolean;
  /** Addressed by records or in the envelope view: its events are its own, so it reads after every wake-up. */
  readonly #private: boolean;
  readonly #endMs: number;
  /** The head has been sent; the fields up to the next blank line are set. */
  #opened = false;
  readonly #event: EventType;
  #view: View = VIEW_TEXT;
  #incarnation = 0;
  #cursorFloor = 0;

  /** Everything below has been written. */
  #offset = 0;
  #following = false;
  readonly #socket: EventSocket;

  constructor(call: RequestContext, params: ReadParams) {
    const stepBytesMax = params.maxBytes === 0 ? Infinity : Math.max(params.maxBytes, STEP_BYTES_MIN);
    super(call, params, Math.min(stepBytesMax, call.server.node.live.stepBytes), 'sseReaders');
    this.#private = this.records || (params.readFlags & READ_FLAG_ENVELOPE) !== 0;
    this.#requestedCursor = params.cursor;
    this.#sawEnd = params.sawEnd === true;
    this.#event = params.event ?? 'data';
    this.#stepBytesMax = stepBytesMax;
    this.#socket = new EventSocket(this.live);
    const spread = 1 + LIFETIME_SPREAD * (Math.random() - 0.5);
    this.#endMs = call.startedMs + this.ctx.settings.sseLifetimeMs * spread;
  }

  override onReply(reply: Reply): void {
    const call = this.call;
    if (call === undefined) return;
    this.topic.beforeReply(reply);
    if (reply.code !== 0) {
      this.#failed(reply);
    } else if (this.#sawEnd && reply.has(REPLY_CLOSED) && reply.nextOffset === reply.startOffset) {
      this.leave()?.respond((res) => call.responder.closed(res, reply));
    } else if (!this.#opened) {
      // Corked: the head and the first events are one write.
      call.res?.cork(() => {
        this.#open(call, reply);
        this.#deliver(reply, 'first');
      });
    } else if (readIncarnation(reply) !== this.#incarnation) {
      this.onDeleted();
    } else {
      this.#deliver(reply, 'later');
    }
  }

  #open(call: RequestContext, reply: Reply): void {
    const { res, responder } = call;
    if (res === undefined) return;
    this.#opened = true;
    this.#sawEnd = false;
    this.#view = viewOf(reply, this.#event);
    this.#incarnation = readIncarnation(reply);
    this.#cursorFloor = cursorFloor(this.#requestedCursor, cursorSpan(Date.now()), Math.random());
    writeStreamHead(res, responder, reply, this.#view);
    whenWritable(res, this.ctx.logError, call, () => this.#onWritable());
    this.ctx.metrics.live.sseOpened++;
    call.opened(200);
  }

  /** Writes what an answer brought and decides how to go on. */
  #deliver(reply: Reply, which: 'first' | 'later'): void {
    const closed = reply.has(REPLY_CLOSED);
    const moved = reply.nextOffset > reply.startOffset;
    const body = moved ? reply.body : undefined;
    const length = body?.length ?? 0;
    const bytes = closed || body === undefined ? length : sendableBytes(this.#view, body);
    const held = length - bytes;
    this.#offset = reply.nextOffset - held;
    this.moveTo(this.#offset, reply.recordNext);
    let taken = true;
    if (bytes > 0 || which === 'first' || closed) {
      const upToDate = held === 0 && reply.has(REPLY_UP_TO_DATE);
      taken = this.#writeEvent(reply, { bytes, upToDate, closed });
    }
    if (this.state === DONE) return;
    if (closed) this.#finish();
    else if (reply.has(REPLY_UP_TO_DATE)) this.#follow();
    else if (!taken) this.state = DRAINING;
    else if (moved) this.read();
    else this.retryLater();
  }

  #writeEvent(reply: Reply, { bytes, upToDate, closed }: Delivery): boolean {
    const fields = {
      view: this.#view,
      cursor: Math.max(this.#cursorFloor, cursorSpan(Date.now())),
      nextOffset: this.#offset,
      upToDate,
      closed,
      firstRecord: reply.has(REPLY_RECORDS) ? reply.recordFirst : undefined,
      nextRecord: this.records ? reply.recordNext : undefined,
    };
    const counters = this.ctx.metrics.live;
    if (bytes > 0) counters.sseDataEvents++;
    counters.sseControlEvents++;
    const { body } = reply;
    if (body === undefined || bytes === 0) return this.#write(render(undefined, fields));
    if (!reply.isBodyKept) return this.#write(render(body.subarray(0, bytes), fields));
    return this.#write(this.live.rendered.of(body, bytes, fields));
  }

  #follow(): void {
    // Over without a word to this reader: the server stops, or the stream was replaced
    // while it caught up. It may come back.
    if (this.topic.number === 0) {
      this.#finish();
      return;
    }
    this.state = LIVE;
    if (this.#following) return;
    this.#following = true;
    if (this.#private) this.topic.wait(this);
    else this.topic.feed(this.#view).join(this);
  }

  onBatch(batch: FeedBatch): void {
    if (this.state !== LIVE) return;
    if (this.#offset !== batch.start || batch.end - batch.start > this.#stepBytesMax) {
      if (this.#offset < batch.end || batch.closed) this.#readOn();
      return;
    }
    this.#offset = batch.end;
    const counters = this.ctx.metrics.live;
    counters.sseDataEvents += batch.dataEvents;
    counters.sseControlEvents += batch.frames.length;
    const taken = this.#write(batch.bytesFor(this.#cursorFloor));
    if (batch.closed) this.#finish();
    else if (!taken) this.#checkBuffer();
  }

  override onEvent(event: Reply): void {
    if (this.state !== LIVE) return;
    if (event.nextOffset > this.#offset || event.has(REPLY_CLOSED)) this.#readOn();
  }

  override onGap(): void {
    if (this.state === LIVE) this.#readOn();
    // The clock was to end the wait.
    else if (this.state === AWAITING && this.read()) this.appoint();
  }

  /** A follower reads again, from where it stands. */
  #readOn(): void {
    if (!this.records && this.#opened) this.position.value = this.#offset;
    this.read();
  }

  protected override read(): boolean {
    this.position.maxBytes = Math.min(this.#stepBytesMax, this.live.stepBytes);
    return super.read();
  }

  override onDeleted(): void {
    // Before the head is sent the answer that is still to come says what to say.
    if (this.#opened) this.#endWithError('STREAM_NOT_FOUND');
  }

  override onStop(): void {
    if (this.#opened) this.#finish();
    else this.fail('STOPPING');
  }

  #write(bytes: Uint8Array): boolean {
    const wasStalled = this.#socket.isStalled;
    const res = this.call?.res;
    if (res === undefined) return true;
    const { live } = this;
    // No socket takes most of a large event at once, so it is not even copied.
    if (bytes.length > READER_BUFFER_BYTES_MAX && !live.hasRoom(bytes.length)) return this.#cut();
    this.call?.meters.spend(bytes.length);
    const taken = this.#socket.write(res, bytes);
    if (this.#socket.isTooMuch) return this.#cut();
    if (!taken && !wasStalled) live.clock.schedule(this, PROBE_MS);
    return taken;
  }

  /** Too much waits for all readers, and this one adds to it. Its client comes back behind its last event. */
  #cut(): false {
    this.ctx.metrics.live.slowReaders++;
    this.leave()?.cut();
    return false;
  }

  #checkBuffer(): void {
    if (this.state === DONE || !this.#socket.isOverfull) return;
    this.state = DRAINING;
    this.ctx.metrics.live.slowReaders++;
  }

  #onWritable(): boolean {
    if (this.state === DONE) return true;
    this.#socket.moved();
    this.#probe();
    return true;
  }

  #probe(): void {
    const res = this.call?.res;
    if (res !== undefined && this.#socket.probe(res) && this.state === DRAINING) this.#readOn();
  }

  onTime(clockMs: number): void {
    if (this.state === AWAITING) return this.fail('STREAM_NOT_FOUND');
    if (clockMs >= this.#endMs) {
      if (this.#opened) this.#finish();
      else this.fail('SHARD_BUSY');
      return;
    }
    if (this.state === RETRYING) this.#readOn();
    if (this.#socket.isStalled) {
      if (this.#socket.isDead(clockMs)) {
        // No client is left to read an end.
        this.leave()?.cut();
        return;
      }
      this.#probe();
    } else if (this.#opened && clockMs - this.#socket.lastWriteMs >= this.ctx.settings.sseKeepaliveMs) {
      this.#write(COMMENT);
    }
    if (this.state !== DONE) this.appoint();
  }

  /** The next thing the clock has to remind this reader of. */
  protected override appoint(): void {
    const clockMs = this.live.clock.clockMs;
    let nextMs = this.#socket.lastWriteMs + this.ctx.settings.sseKeepaliveMs - clockMs;
    if (this.#socket.isStalled) nextMs = PROBE_MS;
    if (this.state === RETRYING) nextMs = RETRY_MS;
    this.live.clock.schedule(this, Math.max(SLOT_MS, Math.min(nextMs, this.#endMs - clockMs)));
  }

  #failed(reply: Reply): void {
    const code = errorCode(reply.code);
    if (!this.#opened && this.awaits(reply)) return;
    if (!this.#opened) this.leave()?.refuseReply(reply);
    else if (ERRORS[code].retry) this.#finish();
    else this.#endWithError(code);
  }

  override fail(code: ErrorCode): void {
    if (this.call === undefined) return;
    if (this.#opened) this.#endWithError(code);
    else this.leave()?.refuse(code);
  }

  #endWithError(code: ErrorCode): void {
    this.ctx.metrics.live.sseErrorEvents++;
    this.#write(errorEvent(ERRORS[code].text));
    this.#finish();
  }

  /** A clean end: the client comes back to the offset of its last control event. */
  #finish(): void {
    this.leave()?.finish();
  }

  protected override leave(): RequestContext | undefined {
    const call = super.leave();
    if (call === undefined) return undefined;
    this.#socket.drained();
    this.topic.feed(this.#view).leave(this);
    return call;
  }
}
