/** Sends the appends of one stream: batches of what waits, over whichever connection there is, until each is durable. */
import type { NodeChannel } from './channel.ts';
import { ConnectionLost, StreamError, clientError } from './error.ts';
import { placeOf } from './leaders.ts';
import type { NodePool } from './pool.ts';
import { type QueuedAppend, ProducerQueue, type SentBatch, type StableProducer } from './producer.ts';
import { type EndSignal, EndSource, type Room, type WaitOptions, raced, sleep, spreadMs } from './waiting.ts';
import { KIND, type StreamPath, type WireOptions, type WireRequest } from './wire.ts';

/** Memory of an append beside its bytes. */
const APPEND_COST_BYTES = 256;
/** Appends that wait for room. They hold what their caller made, so a caller that does not wait is told. */
const WAITING_MAX = 100_000;
/** Before a large append is sent again over HTTP while the session goes on. */
const ELSEWHERE_MS = 500;

export interface AppendOptions extends WaitOptions {
  /**
   * The tail that the stream must have, an offset that a node returned. Of writers that saw one tail one wins, and the
   * others are refused with `OffsetConflict`. On streams of bytes so are appends that wait behind one that is refused so,
   * or aborted while it is queued, and expect its end. One that got no room (`QUEUE_FULL`, or aborted) refuses no other.
   */
  readonly expectedOffset?: number | undefined;
}

interface AppendsHome {
  readonly pool: NodePool;
  /** Bytes of appends of all streams of the client. */
  readonly room: Room;
}

export interface StreamContext extends AppendsHome {
  readonly path: StreamPath;
  readonly contentType: string | undefined;
  readonly producer: StableProducer | undefined;
}

interface AppendParts {
  readonly bytes: Uint8Array;
  readonly closes: boolean;
  readonly expectedOffset: number | undefined;
  readonly signals: readonly EndSignal[];
}

export class StreamAppends {
  /** Undefined: the node is asked before the first append. */
  contentType: string | undefined;
  readonly #home: AppendsHome;
  readonly #path: StreamPath;
  readonly #place: bigint;
  readonly #producer: ProducerQueue;
  #isRunning = false;
  /** Ends the wait for a node when all that waited for one was aborted. */
  #unneeded = new EndSource();
  #wake: () => void = () => undefined;

  constructor({ path, contentType, producer, ...home }: StreamContext) {
    this.#home = home;
    this.#path = path;
    this.#place = placeOf(path);
    this.#producer = new ProducerQueue(producer);
    this.contentType = contentType;
  }

  /** Resolves when there is room for another append. */
  async ready(signals: readonly EndSignal[]): Promise<void> {
    await this.#home.room.take(0, [...signals, this.#home.pool.closed]);
  }

  /** Resolves with the stream's offset behind it when a majority of the nodes has it on disk. */
  async append({ signals, ...parts }: AppendParts): Promise<number> {
    const { pool, room } = this.#home;
    const { bytes, expectedOffset = 0 } = parts;
    if (!Number.isSafeInteger(expectedOffset) || expectedOffset < 0) {
      throw clientError('INVALID_ARGUMENT', `${expectedOffset} is no offset; expect one that a node returned`);
    }
    const all = [...signals, pool.closed];
    const seq = this.#producer.reserve();
    if (room.waiting >= WAITING_MAX) {
      throw clientError('QUEUE_FULL', `${room.waiting} appends wait for room, as many as may; await some, or ready()`);
    }
    const cost = bytes.length + APPEND_COST_BYTES;
    await room.take(cost, all);
    try {
      return await this.#queued({ ...parts, seq }, all);
    } finally {
      room.give(cost);
    }
  }

  async #queued(parts: Omit<QueuedAppend, 'done' | 'failed'>, signals: readonly EndSignal[]): Promise<number> {
    let cancel: () => unknown = () => undefined;
    const durable = new Promise<number>((done, failed) => {
      const append: QueuedAppend = { ...parts, done, failed };
      cancel = (): unknown => this.#producer.cancel(append);
      this.#producer.push(append);
    });
    if (!this.#isRunning) void this.#run();
    this.#wake();
    try {
      return await raced(durable, signals);
    } catch (error) {
      cancel();
      if (this.#producer.isIdle) this.#unneeded.abort(new ConnectionLost('nothing waits for a connection'));
      throw error;
    }
  }

  async #run(): Promise<void> {
    const { pool } = this.#home;
    this.#isRunning = true;
    try {
      // Appends of one turn go together.
      await Promise.resolve();
      for (let losses = 0; !this.#producer.isIdle;) {
        this.#unneeded = new EndSource();
        const signals = [this.#unneeded];
        try {
          this.contentType ??= await this.#askType(signals);
          this.#producer.hasByteOffsets = !/^application\/json\b/i.test(this.contentType);
          await this.#sendOver(await pool.leading(this.#place, signals));
          losses = 0;
        } catch (error) {
          await pool.pause(error, losses++, []);
        }
      }
    } catch (error) {
      const known = error instanceof StreamError;
      this.#producer.failAll(known ? error : clientError('BAD_ANSWER', `the appends cannot be sent: ${String(error)}`));
    } finally {
      this.#isRunning = false;
    }
  }

  async #askType(signals: readonly EndSignal[]): Promise<string> {
    const { fields } = await this.#home.pool.ask({ ...this.#path, kind: KIND.head }, signals);
    return fields.get('content-type') ?? 'application/octet-stream';
  }

  /** Returns when all is acknowledged, or the connection takes no more or another one is better, and nothing is under way. */
  async #sendOver(channel: NodeChannel): Promise<void> {
    const producer = this.#producer;
    for (;;) {
      const isBest = channel.isOpen && this.#home.pool.isBest(this.#place, channel);
      const batch = isBest ? producer.next(channel.bounds) : undefined;
      if (batch !== undefined) this.#send(channel, batch);
      else if (producer.out > 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      } else {
        const pauseMs = producer.resume();
        if (pauseMs > 0) await sleep(spreadMs(pauseMs), [this.#home.pool.closed]);
        if (producer.isIdle || !isBest) return;
      }
    }
  }

  #send(channel: NodeChannel, batch: SentBatch): void {
    const producer = this.#producer;
    const request = this.#request(batch);
    const way = this.#home.pool.wayOf(request, channel);
    void way
      .ask(request, [this.#home.pool.closed])
      .then(
        ({ next }) => producer.acknowledged(batch, next),
        (error: unknown) => {
          if (error instanceof ConnectionLost) producer.lost(batch, way === channel ? 0 : ELSEWHERE_MS);
          else if (error instanceof StreamError) producer.refused(batch, error);
          else producer.refused(batch, clientError('BAD_ANSWER', `the append cannot be sent: ${String(error)}`));
        },
      )
      .finally(() => this.#wake());
  }

  #request({ epoch, seq, appends }: SentBatch): WireRequest {
    const [first] = appends;
    const producer = { 'producer-id': this.#producer.id, 'producer-epoch': epoch, 'producer-seq': seq };
    const at: WireOptions =
      first?.expectedOffset === undefined ? {} : { 'stream-expected-offset': first.expectedOffset };
    const typed: WireOptions = { 'content-type': this.contentType ?? '', ...producer, ...at };
    const request = { ...this.#path, kind: KIND.append };
    if (first === undefined || appends.length > 1) {
      return { ...request, body: appends.map(({ bytes }) => bytes), options: typed };
    }
    if (!first.closes) return { ...request, body: first.bytes, options: typed };
    if (first.bytes.length === 0) return { ...request, options: { ...producer, ...at, 'stream-closed': true } };
    return { ...request, body: first.bytes, options: { ...typed, 'stream-closed': true } };
  }
}
