/** All live readers of one node: their topics, their clock, and the bounds that they share. */
import { assert } from '../../base/assert.ts';
import { type StreamTarget, newRequest } from '../../protocol/request.ts';
import type { ShardGateway } from '../../ports.ts';
import { type ResponseBackpressure, WAITING_BYTES_MAX } from '../backpressure.ts';
import type { HttpContext } from '../context.ts';
import { Clock } from '../../topics/clock.ts';
import { RenderedEvents } from '../../topics/rendered-events.ts';
import { type Flushed, type Member, STEP_BYTES, Topic, type TopicHost } from '../../topics/topic.ts';

/**
 * Bytes that all event-stream readers together may have waiting in their sockets. One reader may hold 1 MiB
 * (READER_BUFFER_BYTES_MAX), but a thousand slow ones must not hold a GiB: beyond this a reader that
 * cannot keep up goes to catch-up reads at its first full socket.
 */
export const BUFFERED_BYTES_MAX = 64 * 1024 * 1024;
/**
 * Beyond WAITING_BYTES_MAX a reader with more in its socket is cut, and comes back to where it was. One event may be a
 * record of 32 MiB, most of which waits in memory for each of its readers.
 */
export const READER_BYTES_WHEN_FULL = 64 * 1024;
/** The event of so short a step stays below that, also in base64: those that catch up still do. */
const STEP_BYTES_WHEN_FULL = READER_BYTES_WHEN_FULL / 2;

/** Topics that may linger without a reader: about 2 KiB each. */
const LINGERING_MAX = 8192;

export class Live implements TopicHost {
  readonly ctx: HttpContext;
  readonly backpressure: ResponseBackpressure;
  readonly gateway: ShardGateway;
  readonly clock: Clock;
  readonly request = newRequest();
  readonly rendered = new RenderedEvents();
  /** See BUFFERED_BYTES_MAX and WAITING_BYTES_MAX. */
  bufferedBytes = 0;
  readonly #topics = new Map<string, Topic>();
  readonly #members = new Set<Member>();
  #stopping = false;
  #dirty: Flushed[] = [];
  readonly #flush = (): void => {
    const dirty = this.#dirty;
    this.#dirty = [];
    for (const one of dirty) one.flush();
  };

  constructor(ctx: HttpContext, backpressure: ResponseBackpressure) {
    this.ctx = ctx;
    this.backpressure = backpressure;
    this.gateway = ctx.gateway;
    this.clock = new Clock(() => ctx.monotonicMs(), ctx.logError);
  }

  get memberCount(): number {
    return this.#members.size;
  }

  get topicCount(): number {
    return this.#topics.size;
  }

  /** Readers for which there is room; Infinity: for any number. */
  get free(): number {
    const { watchersPerCoreMax } = this.ctx.settings;
    return watchersPerCoreMax === 0 ? Infinity : watchersPerCoreMax * this.gateway.shardCount - this.#members.size;
  }

  /** So many more bytes may wait for event streams. */
  hasRoom(bytes: number): boolean {
    return this.bufferedBytes + bytes <= WAITING_BYTES_MAX;
  }

  /** Bytes of one read for an event stream. */
  get stepBytes(): number {
    return this.hasRoom(0) ? STEP_BYTES : STEP_BYTES_WHEN_FULL;
  }

  /** Why no further reader is taken. */
  get refusal(): 'STOPPING' | 'WATCHERS_FULL' | undefined {
    if (this.#stopping) return 'STOPPING';
    return this.free > 0 ? undefined : 'WATCHERS_FULL';
  }

  /** Every topic with readers has at least one, so the rest lingers. */
  get crowded(): boolean {
    return this.#topics.size - this.#members.size > LINGERING_MAX;
  }

  attach(target: StreamTarget, member: Member): Topic {
    const key = `${target.bucket}\0${target.stream}`;
    let topic = this.#topics.get(key);
    if (topic === undefined) this.#topics.set(key, (topic = new Topic(this, key, target)));
    topic.add(member);
    this.#members.add(member);
    return topic;
  }

  detach(topic: Topic, member: Member): void {
    assert(this.#members.delete(member), 'a live reader leaves once');
    topic.remove(member);
  }

  /** Ends a topic. Members that are still catching up go on without it. */
  drop(topic: Topic): void {
    if (topic.number === 0) return;
    this.clock.cancel(topic);
    this.gateway.closeTopic(topic.number, topic.target.group);
    topic.number = 0;
    if (this.#topics.get(topic.key) === topic) this.#topics.delete(topic.key);
  }

  /** One microtask for all that ask: one for each of a thousand sessions costs more than their messages. */
  flushSoon(one: Flushed): void {
    if (this.#dirty.length === 0) queueMicrotask(this.#flush);
    this.#dirty.push(one);
  }

  /**
   * Ends every live answer cleanly, so that clients reconnect from where they are: event streams end,
   * long-polls answer 204. Later requests are refused with STOPPING.
   */
  stop(): void {
    this.#stopping = true;
    for (const topic of this.#topics.values()) topic.flush();
    for (const member of [...this.#members]) member.onStop();
    for (const topic of [...this.#topics.values()]) this.drop(topic);
  }
}
