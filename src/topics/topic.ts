/**
 * One stream with live readers on this node. It owns one topic of the gateway and spreads its tail events.
 *
 * Why nothing is lost between reading and following: a READ that carries the topic subscribes it in the same step of
 * the shard that takes the answer's bytes, and answers and events come through one ordered ring. So after a READ that
 * was up to date at offset N has been answered, every later append arrives as an event that begins at N. A reader that
 * joins later reads as well; events below its offset are skipped, and when one begins above it, the reader reads again.
 *
 * Answers from the cold store come later: events and other answers overtake them. One that says it reaches the tail may
 * have been overtaken by an event that went further; then it does not reach the tail any more, and its reader reads on.
 *
 * An event may come without its bytes (they are too many for the ring). Then the topic reads them once and passes the
 * answer on as if it were the event; events that arrive before the answer are covered by it.
 */
import { errorCode } from '../base/errors.ts';
import { INLINE_PAYLOAD_BYTES_MAX } from '../base/limits.ts';
import type { ReplyHandler, ShardGateway, TailHandler } from '../ports.ts';
import { REPLY_BODY_OMITTED, REPLY_CLOSED, REPLY_DELETED, REPLY_UP_TO_DATE, Reply } from '../protocol/reply.ts';
import type { Request, StreamTarget } from '../protocol/request.ts';
import { type Clock, Timed } from './clock.ts';
import { Feed } from './feed.ts';
import type { View } from './events.ts';
import { READ_FLAG_NO_TOUCH, readCreatedAtMs, readIncarnation, showRead, fillRead } from '../protocol/queries/read.ts';
import {
  READ_NOW,
  READ_OFFSET,
  READ_RECORD,
  READ_RECORD_NOW,
  READ_TAIL_RECORDS,
  type ReadRange,
} from '../protocol/read-fields.ts';

/** Between two long-polls of a client its topic stays, so the shard need not be told twice per poll. */
export const LINGER_MS = 5_000;
/**
 * Bytes of one read for event streams: they stay inside the reply ring, and a socket that stops taking holds no more.
 */
export const STEP_BYTES = INLINE_PAYLOAD_BYTES_MAX;
/** A full mailbox is tried again this much later. */
export const RETRY_MS = 50;

/** The surroundings of a topic. */
export interface TopicHost {
  readonly gateway: ShardGateway;
  readonly clock: Clock;
  /** Reused by all topics: the gateway copies what it needs. */
  readonly request: Request;
  /** So many topics linger that no further one should. */
  readonly crowded: boolean;
  /** Ends the topic; harmless when it is over. */
  drop(topic: Topic): void;
  /** Calls flush() when the current run of callbacks is over. */
  flushSoon(one: Flushed): void;
}

/** Collects what it writes. */
export interface Flushed {
  flush(): void;
}

/** Every live reader, in whatever state. */
export interface Member {
  /** The stream is gone: deleted or expired. */
  onDeleted(): void;
  /** Bytes may be missing from the events; read from your own offset. */
  onGap(): void;
  /** The server stops. */
  onStop(): void;
}

/** Where a read starts and how much it takes. */
export type ReadPosition = { -readonly [Field in keyof ReadRange]: ReadRange[Field] };

/** The stream is not there: its tail is where it will begin, and what is read once it is made begins there too. */
export function beginAtStart(position: ReadPosition): void {
  const { mode } = position;
  if (mode === READ_NOW) position.mode = READ_OFFSET;
  else if (mode === READ_RECORD_NOW || mode === READ_TAIL_RECORDS) position.mode = READ_RECORD;
  else return;
  position.value = 0;
}

/** A member that wants the events themselves. */
export interface EventReader {
  /** `event` is valid during the call; its bytes begin at startOffset. */
  onEvent(event: Reply): void;
}

export class Topic extends Timed implements TailHandler, ReplyHandler {
  readonly key: string;
  readonly target: StreamTarget;
  /** The gateway's number; 0 once the topic is over. */
  number: number;
  /** From the answers of its members: the number of the stream's creation, and its type ('' until it has one). */
  incarnation = 0;
  contentType = '';
  readonly #host: TopicHost;
  readonly #members = new Set<Member>();
  readonly #waiters = new Set<EventReader>();
  /** Those that a reader has asked for. */
  readonly #feeds = new Map<View, Feed>();
  /** Where the next event begins; -1 until the first one came. */
  #offset = -1;
  /** The topic reads bytes that an event lacked: #offset is where. */
  #reading = false;
  /** The shard refused the stream while the topic was reading; an answer from the cold store may still come. */
  #refused = false;
  #flushDue = false;
  /** How far events have gone, whatever became of them. */
  #eventEnd = -1;
  #eventClosed = false;
  readonly #event = new Reply();
  readonly #ownRead: ReadPosition = {
    mode: READ_OFFSET,
    value: 0,
    maxBytes: STEP_BYTES,
    maxRecords: 0,
    readFlags: READ_FLAG_NO_TOUCH,
  };

  constructor(host: TopicHost, key: string, target: StreamTarget) {
    super();
    this.#host = host;
    this.key = key;
    this.target = target;
    this.number = host.gateway.openTopic(this);
  }

  add(member: Member): void {
    // While the topic reads, the clock may hold its next try.
    if (!this.#reading) this.#host.clock.cancel(this);
    this.#members.add(member);
  }

  remove(member: Member): void {
    if (!this.#members.delete(member) || this.#members.size > 0 || this.number === 0) return;
    if (this.#reading) return;
    // Nothing to come back to: long-polls on streams that do not exist would leave a topic each.
    if (this.incarnation === 0 || this.#host.crowded) this.#host.drop(this);
    else this.#host.clock.schedule(this, LINGER_MS);
  }

  feed(view: View): Feed {
    let feed = this.#feeds.get(view);
    if (feed === undefined) this.#feeds.set(view, (feed = new Feed(view)));
    return feed;
  }

  /** More than one gets the events themselves. */
  get isShared(): boolean {
    return this.#waiters.size > 1;
  }

  wait(waiter: EventReader): void {
    this.#waiters.add(waiter);
  }

  stopWaiting(waiter: EventReader): void {
    this.#waiters.delete(waiter);
  }

  /** Sends a READ and subscribes; doing that again is harmless. False: the mailbox is full. */
  read(position: ReadPosition, handler: ReplyHandler): boolean {
    const { request } = this.#host;
    // 0 when the topic is over: the stream may have been recreated, and its events must
    // not reach readers of the old one.
    fillRead(request, this.target, position, this.number);
    return this.#host.gateway.send(request, handler);
  }

  /** Every member passes its answers here first: what was rendered before the answer must not reach it afterwards. */
  beforeReply(reply: Reply): void {
    this.flush();
    if (reply.code !== 0) return;
    this.#checkLate(reply);
    this.incarnation = readIncarnation(reply);
    if (reply.contentType !== '') this.contentType = reply.contentType;
  }

  #checkLate(reply: Reply): void {
    // Only answers with bytes are late. An empty one comes from a shard, perhaps of another stream of this name.
    if (reply.nextOffset === reply.startOffset || reply.has(REPLY_CLOSED)) return;
    if (this.#eventClosed || reply.nextOffset < this.#eventEnd) reply.flags &= ~REPLY_UP_TO_DATE;
  }

  flush(): void {
    this.#flushDue = false;
    for (const feed of this.#feeds.values()) feed.flush();
  }

  onTail(reply: Reply): void {
    if (this.number === 0) return;
    if (reply.has(REPLY_DELETED)) {
      this.#delete();
      return;
    }
    if (reply.code !== 0) {
      this.#refused = this.#reading;
      if (!this.#reading) this.#gap();
      return;
    }
    this.#eventEnd = Math.max(this.#eventEnd, reply.nextOffset);
    this.#eventClosed ||= reply.has(REPLY_CLOSED);
    // The answer that the topic waits for covers this event, or it is late and another read follows.
    if (this.#reading) return;
    const event = this.#event;
    event.flags = reply.flags;
    if (reply.has(REPLY_BODY_OMITTED) || (this.#offset >= 0 && reply.startOffset > this.#offset)) {
      if (this.#offset < 0) this.#offset = reply.startOffset;
      if (this.#members.size > 0) this.#read();
      else this.#offset = -1;
      return;
    }
    event.flags |= REPLY_UP_TO_DATE;
    this.#spread(reply, this.incarnation);
  }

  /** The bytes that an event lacked. */
  onReply(reply: Reply): void {
    if (this.number === 0) return;
    const wasRefused = this.#refused;
    this.#reading = this.#refused = false;
    if (this.#members.size === 0) {
      this.#offset = -1;
      this.#host.clock.schedule(this, LINGER_MS);
      return;
    }
    const code = errorCode(reply.code);
    if (code === 'STREAM_NOT_FOUND' || code === 'BUCKET_NOT_FOUND') {
      this.#delete();
      return;
    }
    if (code !== 'OK' || wasRefused) return this.#gap();
    this.#checkLate(reply);
    this.#event.flags = reply.flags;
    const more = !reply.has(REPLY_UP_TO_DATE);
    this.#spread(reply, readIncarnation(reply));
    if (more && this.number !== 0) this.#read();
  }

  /** A lingering topic ends; a read that found the mailbox full is tried again. */
  onTime(): void {
    if (this.#members.size === 0) this.#host.drop(this);
    else if (this.#reading) this.#read();
  }

  /** The fields of #event that differ between events and answers have been set: the flags. */
  #spread(reply: Reply, incarnation: number): void {
    const closed = reply.has(REPLY_CLOSED);
    if (this.#offset >= 0 && reply.nextOffset <= this.#offset && !closed) return;
    this.#offset = reply.nextOffset;
    if (this.#waiters.size > 0) this.#wake(reply, incarnation);
    let isDue = false;
    for (const feed of this.#feeds.values()) isDue = feed.push(reply) || isDue;
    if (closed) {
      this.flush();
      this.#host.drop(this);
    } else if (isDue && !this.#flushDue) {
      this.#flushDue = true;
      this.#host.flushSoon(this);
    }
  }

  #wake(reply: Reply, incarnation: number): void {
    const event = this.#event;
    if (reply.contentType !== '') this.contentType = reply.contentType;
    event.code = 0;
    event.contentType = this.contentType;
    event.startOffset = reply.startOffset;
    event.nextOffset = reply.nextOffset;
    event.recordFirst = reply.recordFirst;
    event.recordStart = reply.recordStart;
    event.recordNext = reply.recordNext;
    showRead(event, incarnation, readCreatedAtMs(reply));
    event.body = reply.body;
    for (const waiter of [...this.#waiters]) waiter.onEvent(event);
    event.body = undefined;
  }

  /** Each reader learns the reason from a read of its own. */
  #gap(): void {
    this.#offset = -1;
    for (const member of [...this.#members]) member.onGap();
  }

  #delete(): void {
    this.flush();
    this.#host.drop(this);
    for (const member of [...this.#members]) member.onDeleted();
  }

  #read(): void {
    this.#reading = true;
    this.#ownRead.value = this.#offset;
    if (!this.read(this.#ownRead, this)) this.#host.clock.schedule(this, RETRY_MS);
  }
}
