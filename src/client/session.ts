/**
 * One WebSocket to a node, for any number of streams. Requests wait here until the session has room for them, what is
 * written in one turn leaves in as few messages as it fits in, and a follower's events never exceed its credit. Whatever
 * breaks the protocol ends the session, and the next one takes over.
 */
import { type NodeChannel, type WebSocketConstructor, type WebSocketLike, isClosed } from './channel.ts';
import { ConnectionLost, type StreamError } from './error.ts';
import type { Leaders } from './leaders.ts';
import type { SendingBounds } from './producer.ts';
import { type EndSignal, EndSource, Room, raced, sleep } from './waiting.ts';
import {
  KIND,
  NodeFrameReader,
  FrameWriter,
  MalformedFrame,
  type NodeFrame,
  PROTOCOL,
  type SessionLimits,
  type StreamPath,
  type WireAnswer,
  type WireOptions,
  type WireRequest,
  joinBytes,
} from './wire.ts';

const OPENING_MS_MAX = 10_000;
/** A node that says nothing for so long is asked for a sign of life, and given up after as much again. */
export const SILENCE_MS = 10_000;
/** Bytes of events that a follower has not taken. */
const CREDIT_BYTES = 256 * 1024;
/** Each takes some hundred bytes of memory, however short it is. */
const EVENTS_MAX = 4096;
/** Room in a message beside a body: names, options and heads. */
const HEAD_BYTES_MAX = 16 * 1024;
/** Requests of a session are counted in bytes of flight, each as at least its share of them. Subscriptions use the rest. */
const ROOM_SHARE = 7 / 8;
const ID_MAX = 0xffff_ffff;

export interface SessionOptions {
  /** `http://` or `https://`, as the other way to the node has it. */
  readonly url: string;
  readonly token: string | undefined;
  readonly socket: WebSocketConstructor;
  readonly silenceMs: number;
}

interface PendingAnswer {
  readonly cost: number;
  resolve(answer: WireAnswer): void;
  reject(error: Error): void;
}

export class SessionChannel implements NodeChannel {
  readonly url: string;
  readonly #socket: WebSocketLike;
  readonly #writer = new FrameWriter();
  readonly #reader = new NodeFrameReader();
  readonly #pending = new Map<number, PendingAnswer>();
  readonly #followed = new Map<number, FollowedEvents>();
  readonly #ended = new EndSource();
  readonly #opened: Promise<void>;
  #hello: () => void = () => undefined;
  #limits: SessionLimits = { messageBytes: 0, inFlightBytes: 0, requests: 1 };
  #room = new Room(0);
  #unsent: Uint8Array[] = [];
  #lastId = 0;
  #lastPath: StreamPath | undefined;
  #isLeaving = false;
  #isHeard = false;
  readonly #silenceMs: number;
  isSilent = false;
  hasAnswered = false;
  leaders: Leaders = [];

  private constructor({ url, token, socket: Socket, silenceMs }: SessionOptions) {
    this.#silenceMs = silenceMs;
    const protocols = token === undefined ? [PROTOCOL] : [PROTOCOL, `millrace.bearer.${percentEncoded(token)}`];
    this.url = url;
    this.#socket = new Socket(`${url.replace(/^http/, 'ws')}/__svc/session`, protocols);
    this.#socket.binaryType = 'arraybuffer';
    this.#opened = new Promise((resolve) => {
      this.#hello = resolve;
    });
    this.#socket.addEventListener('message', (event) => this.#receive('data' in event ? event.data : undefined));
    this.#socket.addEventListener('close', () => this.#end('the connection closed'));
    this.#socket.addEventListener('error', () => this.#end('the connection failed'));
  }

  /** Resolves when the node has said HELLO. */
  static async open(options: SessionOptions, signals: readonly EndSignal[]): Promise<SessionChannel> {
    const channel = new SessionChannel(options);
    const enough = new EndSource();
    const late = sleep(OPENING_MS_MAX, [enough]).then(() => channel.#end('the node does not say HELLO'));
    late.catch(() => undefined);
    try {
      await raced(channel.#opened, [channel.#ended, ...signals]);
    } catch (error) {
      channel.close();
      throw error;
    } finally {
      enough.abort(new Error('it is open'));
    }
    void channel.#watch();
    return channel;
  }

  get isOpen(): boolean {
    return !this.#isLeaving && !this.#ended.aborted;
  }

  get bounds(): SendingBounds {
    return { batches: Number.POSITIVE_INFINITY, bytes: this.#limits.messageBytes - HEAD_BYTES_MAX };
  }

  async ask(request: WireRequest, signals: readonly EndSignal[] = []): Promise<WireAnswer> {
    const id = this.#nextId();
    const frame = this.#writer.request(id, request);
    const share = Math.ceil(this.#limits.inFlightBytes / this.#limits.requests);
    const cost = Math.max(frame.length, share);
    await this.#room.take(cost, [...signals, this.#ended]);
    this.#ended.throwIfAborted();
    this.#lastPath = { bucket: request.bucket, stream: request.stream };
    return await new Promise((resolve, reject) => {
      this.#pending.set(id, { cost, resolve, reject });
      this.#send(frame);
    });
  }

  async *follow(
    path: StreamPath,
    options: WireOptions,
    signals: readonly EndSignal[],
  ): AsyncGenerator<WireAnswer, void> {
    const id = this.#nextId();
    const events = new FollowedEvents();
    this.#ended.throwIfAborted();
    this.#followed.set(id, events);
    this.#lastPath = path;
    this.#send(this.#writer.subscribe(id, path, options, CREDIT_BYTES));
    try {
      for (;;) {
        const event = await events.next([...signals, this.#ended]);
        yield event;
        if (isClosed(event)) return;
        const granted = events.grant(event.body.length);
        if (granted > 0 && this.#followed.has(id)) this.#send(this.#writer.credit(id, granted));
      }
    } finally {
      if (this.#followed.delete(id)) this.#send(this.#writer.unsubscribe(id));
    }
  }

  close(): void {
    this.#end('the client closed the connection');
  }

  #nextId(): number {
    do this.#lastId = this.#lastId === ID_MAX ? 1 : this.#lastId + 1;
    while (this.#pending.has(this.#lastId) || this.#followed.has(this.#lastId));
    return this.#lastId;
  }

  #send(frame: Uint8Array): void {
    if (this.#ended.aborted) return;
    if (this.#unsent.push(frame) === 1) queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    const frames = this.#unsent.splice(0);
    while (frames.length > 0 && !this.#ended.aborted) {
      let count = 0;
      let size = 0;
      for (const frame of frames) {
        if (count > 0 && size + frame.length > this.#limits.messageBytes) break;
        count++;
        size += frame.length;
      }
      this.#socket.send(joinBytes(frames.splice(0, count)));
    }
  }

  #receive(data: unknown): void {
    if (this.#ended.aborted) return;
    this.#isHeard = true;
    try {
      if (!(data instanceof ArrayBuffer)) throw new MalformedFrame('messages are binary');
      this.#reader.read(new Uint8Array(data), (frame) => this.#take(frame));
    } catch (error) {
      this.#end(`the node does not keep to the protocol: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  #take(frame: NodeFrame): void {
    if (frame.kind === 'hello') this.#greet(frame.limits);
    else if (frame.kind === 'away') this.#leave();
    else if (frame.kind === 'leaders') this.leaders = frame.leaders;
    else if (frame.kind === 'refused') this.#refuse(frame.id, frame.error);
    else if (frame.kind === 'event') this.#takeEvent(frame.id, frame.answer);
    else this.#settle(frame.id)?.resolve(frame.answer);
  }

  #greet(limits: SessionLimits): void {
    if (this.#limits.messageBytes > 0) throw new MalformedFrame('a second HELLO');
    if (limits.messageBytes <= HEAD_BYTES_MAX) throw new MalformedFrame('messages are too short');
    this.#limits = limits;
    this.#room = new Room(limits.inFlightBytes * ROOM_SHARE);
    this.#hello();
  }

  #takeEvent(id: number, event: WireAnswer): void {
    this.hasAnswered = true;
    // The node may not know yet that the follower has left.
    const events = this.#followed.get(id);
    if (events === undefined) return;
    const taken = events.push(event);
    if (taken === 'flood') throw new MalformedFrame('events exceed their credit');
    if (isClosed(event)) this.#followed.delete(id);
    if (taken === 'taken') return;
    if (this.#followed.delete(id)) this.#send(this.#writer.unsubscribe(id));
    events.fail(new ConnectionLost('its events are taken too slowly'));
  }

  #refuse(id: number, error: StreamError): void {
    const events = this.#followed.get(id);
    if (events === undefined) return this.#settle(id)?.reject(error);
    this.#followed.delete(id);
    events.fail(error);
  }

  #settle(id: number): PendingAnswer | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.hasAnswered = true;
    this.#pending.delete(id);
    this.#room.give(pending.cost);
    if (this.#isLeaving && this.#pending.size === 0) this.close();
    return pending;
  }

  /** Requests under way are still answered. */
  #leave(): void {
    this.#isLeaving = true;
    if (this.#pending.size === 0 && this.#followed.size === 0) this.close();
  }

  /** A node that is gone without a word does not answer the question either. */
  async #watch(): Promise<void> {
    try {
      for (;;) {
        this.#isHeard = false;
        await sleep(this.#silenceMs, [this.#ended]);
        if (this.#isHeard || this.#lastPath === undefined) continue;
        void this.ask({ ...this.#lastPath, kind: KIND.head }).catch(() => undefined);
        await sleep(this.#silenceMs, [this.#ended]);
        if (this.#isHeard) continue;
        this.isSilent = true;
        return this.#end('the node does not answer');
      }
    } catch {
      // It has ended.
    }
  }

  #end(reason: string): void {
    if (this.#ended.aborted) return;
    const error = new ConnectionLost(reason);
    this.#ended.abort(error);
    this.#unsent = [];
    for (const pending of this.#pending.values()) pending.reject(error);
    this.#pending.clear();
    this.#followed.clear();
    this.#socket.close();
  }
}

/** Events of one stream that came and were not taken, at most as many as its credit lets in. */
class FollowedEvents {
  readonly #events: WireAnswer[] = [];
  #credit = CREDIT_BYTES;
  /** Bytes that were taken and not granted again. */
  #taken = 0;
  #error: Error | undefined;
  #wake: () => void = () => undefined;

  /**
   * `flood`: it was not to come. One record may be larger than what is left, and few events have no bytes. `full`: no more
   * are kept. Those before it are taken, and what follows them is asked for again.
   */
  push(event: WireAnswer): 'taken' | 'full' | 'flood' {
    const { length } = event.body;
    if (length > 0 && this.#credit <= 0) return 'flood';
    if (this.#events.length >= EVENTS_MAX) return this.#credit === CREDIT_BYTES ? 'flood' : 'full';
    this.#credit -= length;
    this.#events.push(event);
    this.#wake();
    return 'taken';
  }

  fail(error: Error): void {
    this.#error = error;
    this.#wake();
  }

  async next(signals: readonly EndSignal[]): Promise<WireAnswer> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined) return event;
      if (this.#error !== undefined) throw this.#error;
      const changed = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await raced(changed, signals);
    }
  }

  /** The program took so many. Returns what to grant the node, in large steps. */
  grant(bytes: number): number {
    this.#taken += bytes;
    if (this.#taken < CREDIT_BYTES / 2) return 0;
    const granted = this.#taken;
    this.#taken = 0;
    this.#credit += granted;
    return granted;
  }
}

/** Letters, digits and `-._~` stay: everything else is no character of a protocol's name. */
function percentEncoded(token: string): string {
  return encodeURIComponent(token).replaceAll(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
