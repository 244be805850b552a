/**
 * One stream that a session follows. It reads up to the tail, as far as its credit goes, and takes the events of the
 * stream's topic from there. Where it has no credit, or the session's socket is full, it keeps nothing: it reads again
 * from its offset when it may go on.
 *
 *   READING ──answer reaches the tail──► LIVE
 *    ▲  ▲ └──no credit, or no turn──► PAUSED ◄──event, and no room for it── LIVE
 *    │  └──credit, or its turn─────────┘
 *   RETRYING (mailbox was full)          closed, deleted, refused, unsubscribed ──► DONE
 */
import type { RequestMeters } from '../access/request-meters.ts';
import { shownContentType } from '../access/stored-type.ts';
import { type ErrorCode, type RefusalReason, errorCode } from '../base/errors.ts';
import { SESSION_CREDIT_BYTES_MAX, SESSION_READ_BYTES_MIN } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import { isRecordRead, parseReadQuery } from '../http/query.ts';
import { writeIncarnation, writeReadState } from '../http/read-response.ts';
import type { HttpServerContext } from '../http/server-context.ts';
import type { ReadParams } from '../http/context.ts';
import type { ReplyHandler } from '../ports.ts';
import { READ_FLAG_AWAIT, READ_FLAG_ENVELOPE, READ_FLAG_NO_TOUCH, readIncarnation } from '../protocol/queries/read.ts';
import { READ_NOW, READ_OFFSET, READ_RECORD, READ_RECORD_NOW } from '../protocol/read-fields.ts';
import { REPLY_CLOSED, REPLY_UP_TO_DATE, type Reply } from '../protocol/reply.ts';
import { Timed } from '../topics/clock.ts';
import {
  type EventReader,
  type Member,
  type ReadPosition,
  RETRY_MS,
  STEP_BYTES,
  type Topic,
  beginAtStart,
} from '../topics/topic.ts';
import type { Frame } from './frame.ts';
import { type FieldWriter, type RequestRefusal, beginEvent, endWith, refusalOf } from './messages.ts';
import type { SessionRights } from './rights.ts';
import type { ReadTurns, SessionOutbox, TailEvent } from './outbox.ts';

const WAITING = 0;
const READING = 1;
const RETRYING = 2;
const LIVE = 3;
const PAUSED = 4;
/** The stream is not there, and the subscription waits until it is made. */
const AWAITING = 5;
const DONE = 6;

/** The session, as its subscriptions see it. */
export interface SubscriptionOwner {
  readonly server: HttpServerContext;
  readonly requestId: string;
  readonly outbox: SessionOutbox;
  readonly turns: ReadTurns;
  readonly tailEvent: TailEvent;
  refuse(refused: RequestRefusal): void;
  readonly rights: Pick<SessionRights, 'metersOf'>;
  wrote(subscription: FollowedStream): void;
}

export class FollowedStream extends Timed implements Member, EventReader, ReplyHandler {
  readonly id: number;
  readonly #owner: SubscriptionOwner;
  #state = WAITING;
  /** Bytes that may be sent; below zero when the last event was one record larger than that. */
  #credit: number;
  #params: ReadParams | undefined;
  #topic: Topic | undefined;
  #meters: RequestMeters | undefined;
  readonly #position: ReadPosition = { mode: READ_OFFSET, value: 0, maxBytes: 0, maxRecords: 0, readFlags: 0 };
  /** Everything below was sent. */
  #offset = 0;
  #incarnation = 0;
  /** Bytes that the read under way counts as. */
  #readBytes = 0;
  #hasBegun = false;
  #isFollowing = false;

  constructor(owner: SubscriptionOwner, { id, credit }: Frame) {
    super();
    this.#owner = owner;
    this.id = id;
    this.#credit = Math.min(credit, SESSION_CREDIT_BYTES_MAX);
  }

  override get requestId(): string {
    return this.#owner.requestId;
  }

  get isOver(): boolean {
    return this.#state === DONE;
  }

  /** Reads its question and begins. */
  start(frame: Frame): RefusalReason | undefined {
    if (this.#state === DONE) return undefined;
    const refusal = this.#begin(frame);
    if (refusal !== undefined) this.#state = DONE;
    return refusal;
  }

  #begin(frame: Frame): RefusalReason | undefined {
    const { server } = this.#owner;
    const { live } = server.node;
    if (frame.fault !== '') return { code: 'INVALID_REQUEST', detail: frame.fault };
    const parsed = parseReadQuery(`${frame.query}&live=sse`, 0, '');
    if (!parsed.ok) return { code: 'INVALID_QUERY', detail: parsed.reason };
    if (live.refusal !== undefined) {
      server.ctx.metrics.live.refused++;
      return { code: live.refusal, detail: '' };
    }
    const meters = this.#owner.rights.metersOf(frame.bucket);
    const limited = meters.addReader();
    if (limited !== undefined) {
      server.ctx.metrics.live.refused++;
      return limited;
    }
    this.#meters = meters;
    const { params } = parsed.value;
    this.#params = params;
    Object.assign(this.#position, { mode: params.mode, value: params.value, maxRecords: params.maxRecords });
    this.#position.readFlags = params.readFlags | (params.wait === 'create' ? READ_FLAG_AWAIT : 0);
    this.#topic = live.attach({ bucket: frame.bucket, stream: frame.stream, group: frame.group }, this);
    server.ctx.metrics.live.subscriptions++;
    this.#readOn();
    return undefined;
  }

  /** The client takes more. */
  grant(bytes: number): void {
    this.#credit = Math.min(this.#credit + bytes, SESSION_CREDIT_BYTES_MAX);
    if (!planted('session-credit-unheard')) this.resume();
  }

  /** Its turn to read has come, or there is credit. */
  resume(): void {
    if (this.#state === PAUSED) this.#readOn();
  }

  /** Ends it without a word. A read under way keeps its turn until the shard has answered. */
  leave(): void {
    this.#state = DONE;
    this.#meters?.removeReader();
    const topic = this.#topic;
    if (topic === undefined) return;
    this.#topic = undefined;
    this.#owner.turns.forget(this);
    const { server } = this.#owner;
    server.node.live.clock.cancel(this);
    topic.stopWaiting(this);
    server.node.live.detach(topic, this);
    server.ctx.metrics.live.subscriptions--;
  }

  onReply(reply: Reply): void {
    const topic = this.#topic;
    const counted = this.#readBytes;
    topic?.beforeReply(reply);
    this.#endRead();
    if (topic === undefined || this.isOver) return;
    // A read of the tail is asked once, and brings next to nothing.
    if (counted === 0 || this.#owner.outbox.takes(reply.body, counted)) this.#take(reply, topic);
    else this.#readOn();
  }

  #take(reply: Reply, topic: Topic): void {
    if (reply.code !== 0) return this.#refused(reply, topic);
    if (this.#hasBegun && readIncarnation(reply) !== this.#incarnation) return this.onDeleted();
    this.#incarnation = readIncarnation(reply);
    const moved = reply.nextOffset > reply.startOffset;
    this.#deliver(reply);
    if (this.isOver) return;
    if (reply.has(REPLY_UP_TO_DATE)) this.#follow(topic);
    else if (moved) this.#readOn();
    else this.#retryLater();
  }

  /** Its topic says when to look again for a stream that it awaits. */
  #refused(reply: Reply, topic: Topic): void {
    const isAwaited = this.#params?.wait === 'create' && !this.#hasBegun && topic.number !== 0;
    if (!isAwaited || errorCode(reply.code) !== 'STREAM_NOT_FOUND') return this.#end(refusalOf(this.id, reply));
    this.#state = AWAITING;
    return beginAtStart(this.#position);
  }

  onEvent(event: Reply): void {
    if (this.#state !== LIVE) return;
    if (event.nextOffset <= this.#offset && !event.has(REPLY_CLOSED)) return;
    const fits = (event.body?.length ?? 0) <= this.#credit && !this.#owner.outbox.isStalled;
    if (fits && event.startOffset === this.#offset && !this.#readsItself(event)) this.#deliver(event);
    else this.#readOn();
  }

  /** Events have the bytes in one form, and a stream without a type has just got one. */
  #readsItself({ contentType }: Reply): boolean {
    const params = this.#params;
    if (params === undefined || contentType === '' || params.maxBytes > 0) return true;
    return isRecordRead(params) || (params.readFlags & READ_FLAG_ENVELOPE) !== 0;
  }

  onGap(): void {
    if (this.#state === LIVE || this.#state === AWAITING) this.#readOn();
  }

  onDeleted(): void {
    // Before the first answer that one says what to say.
    if (this.#hasBegun) this.#fail('STREAM_NOT_FOUND');
  }

  onStop(): void {
    this.#fail('STOPPING');
  }

  /** The session ends, for this reason. */
  end(why: RefusalReason): void {
    this.#end({ id: this.id, ...why });
  }

  onTime(): void {
    if (this.#state === RETRYING) this.#readOn();
  }

  override onTimeFailed(): void {
    this.#fail('INTERNAL');
  }

  /** Sends what an answer or an event brought. */
  #deliver(reply: Reply): void {
    const isClosed = reply.has(REPLY_CLOSED);
    const body = reply.nextOffset > reply.startOffset ? reply.body : undefined;
    this.#offset = reply.nextOffset;
    this.#moveTo(reply);
    if (body === undefined && this.#hasBegun && !isClosed) return;
    if (this.#state === LIVE && body !== undefined && this.#topic?.isShared === true) this.#share(reply, body);
    else this.#write(this.#owner.outbox.fields, reply, body);
    this.#hasBegun = true;
    this.#meters?.spend(body?.length ?? 0);
    if (!planted('session-credit-free')) this.#credit -= body?.length ?? 0;
    this.#owner.server.ctx.metrics.sessions.events++;
    if (isClosed) this.leave();
    this.#owner.wrote(this);
  }

  #write(fields: FieldWriter, reply: Reply, body: Uint8Array | undefined): void {
    beginEvent(fields, this.id, reply.nextOffset);
    if (!this.#hasBegun) {
      fields.writeHeader('content-type', shownContentType(reply));
      writeIncarnation(fields, reply);
    }
    if (this.#params !== undefined) writeReadState(fields, reply, this.#params);
    endWith(fields, body);
  }

  /** The tail of a stream tells all who follow it the same, so it is written once for those with the same id. */
  #share(event: Reply, body: Uint8Array): void {
    const { outbox, tailEvent } = this.#owner;
    const isKnown = tailEvent.isOf(event);
    if (isKnown && tailEvent.id === this.id) return outbox.share(tailEvent.message);
    const { fields, out } = outbox;
    const from = out.length;
    this.#write(fields, event, body);
    if (isKnown) return;
    tailEvent.keep(event, this.id, out.cut(from));
    outbox.share(tailEvent.message);
  }

  /** Where the next read begins. Only the first one renews a sliding lifetime. */
  #moveTo({ nextOffset, recordNext }: Reply): void {
    const isByRecord = this.#params !== undefined && isRecordRead(this.#params);
    this.#position.mode = isByRecord ? READ_RECORD : READ_OFFSET;
    this.#position.value = isByRecord ? recordNext : nextOffset;
    this.#position.readFlags |= READ_FLAG_NO_TOUCH;
  }

  #follow(topic: Topic): void {
    // The stream was replaced while this caught up.
    if (topic.number === 0) return this.#fail('STREAM_NOT_FOUND');
    this.#state = LIVE;
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    topic.wait(this);
  }

  #readOn(): void {
    const topic = this.#topic;
    if (topic === undefined) return;
    if (this.#isAtTail) return this.#read(topic, 1, 0);
    const wanted = this.#params?.maxBytes ?? 0;
    const most = Math.min(STEP_BYTES, this.#credit);
    const bytes = wanted === 0 ? most : Math.min(most, wanted);
    this.#state = PAUSED;
    const counted = Math.max(bytes, SESSION_READ_BYTES_MIN);
    if (bytes > 0 && this.#owner.turns.take(this, counted)) this.#read(topic, bytes, counted);
  }

  /** The tail is that of now, with or without credit, and its answer brings no bytes. */
  get #isAtTail(): boolean {
    return this.#position.mode === READ_NOW || this.#position.mode === READ_RECORD_NOW;
  }

  #read(topic: Topic, bytes: number, counted: number): void {
    this.#position.maxBytes = bytes;
    this.#readBytes = counted;
    this.#state = READING;
    if (topic.read(this.#position, this)) return;
    this.#endRead();
    this.#retryLater();
  }

  #endRead(): void {
    const bytes = this.#readBytes;
    this.#readBytes = 0;
    const isKept = this.isOver && planted('session-read-turn-kept');
    if (bytes > 0 && !isKept) this.#owner.turns.give(bytes);
  }

  #retryLater(): void {
    this.#state = RETRYING;
    this.#owner.server.node.live.clock.schedule(this, RETRY_MS);
  }

  #fail(code: ErrorCode): void {
    this.#end({ id: this.id, code, detail: '' });
  }

  #end(refused: RequestRefusal): void {
    if (this.isOver) return;
    this.leave();
    this.#owner.refuse(refused);
    this.#owner.wrote(this);
  }
}
