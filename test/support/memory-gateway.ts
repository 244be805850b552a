// Streams in memory behind the gateway port. Answers and tail events leave through one ordered queue, as from a shard;
// it is emptied by itself (setImmediate) or, for race tests, step by step by the test.
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers';
import { type ErrorCode, errorNumber } from '../../src/base/errors.ts';
import { TAIL_EVENT_BYTES_MAX } from '../../src/base/limits.ts';
import type { ReplyHandler } from '../../src/ports.ts';
import { isJson } from '../../src/protocol/media-type.ts';
import {
  REPLY_BODY_OMITTED,
  REPLY_CLOSED,
  REPLY_DELETED,
  REPLY_RECORDS,
  REPLY_TAIL,
  REPLY_UP_TO_DATE,
  Reply,
} from '../../src/protocol/reply.ts';
import { type Request } from '../../src/protocol/request.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import { READ_FLAG_AWAIT, READ_FLAG_NO_TOUCH, showRead } from '../../src/protocol/queries/read.ts';
import { READ_NOW, READ_OFFSET, READ_RECORD, READ_RECORD_NOW } from '../../src/protocol/read-fields.ts';
import { queryOf } from './asked-query.ts';
import { FakeGateway } from './fake-gateway.ts';

interface FakeStream {
  readonly incarnation: number;
  readonly contentType: string;
  readonly chunks: Buffer[];
  /** All chunks in one piece; undefined after an append. */
  joined: Buffer | undefined;
  /** Offset at which each chunk begins; a chunk of a JSON stream is one record. */
  readonly starts: number[];
  tail: number;
  closed: boolean;
  /** Reads that start below are answered late, as those of the cold store are. */
  hotStart: number;
  readonly topics: Set<number>;
}

export interface SentRead {
  readonly mode: number;
  readonly value: number;
  readonly maxBytes: number;
  readonly noTouch: boolean;
  readonly topic: number;
}

const PUMP_STEPS_MAX = 1_000_000;

export class MemoryGateway extends FakeGateway {
  readonly reads: SentRead[] = [];
  /** Requests are refused as long as this is positive. */
  refuse = 0;
  /** Answers that wait for the cold store; what was asked and answered later overtakes them. */
  readonly held: (() => void)[] = [];
  /** The test pumps. */
  manual = false;
  readonly #refused = new Map<string, ErrorCode>();
  readonly #streams = new Map<string, FakeStream>();
  /** Topics of streams that are not there. */
  readonly #awaiting = new Map<string, number>();
  readonly #queue: (() => void)[] = [];
  #pumping = false;
  #incarnations = 0;

  constructor() {
    super(1, 1);
  }

  send(request: Request, handler: ReplyHandler): boolean {
    if (this.refuse > 0) {
      this.refuse--;
      return false;
    }
    if (request.op !== QUERIES.read.number) return this.other(request, handler);
    const { mode, value, maxBytes, topic, readFlags } = queryOf(request).fields;
    const key = `${request.command.bucket}/${request.command.stream}`;
    const noTouch = (readFlags & READ_FLAG_NO_TOUCH) !== 0;
    this.reads.push({ mode, value, maxBytes, noTouch, topic });
    // The shard sees the request later than it was sent, and what it answers is fixed at that moment.
    this.enqueue(() => {
      const reply = this.#read(key, mode, value, maxBytes, topic);
      if (reply.code !== 0 && topic !== 0 && (readFlags & READ_FLAG_AWAIT) !== 0) this.#awaiting.set(key, topic);
      const isCold = reply.code === 0 && reply.startOffset < (this.#streams.get(key)?.hotStart ?? 0);
      (isCold ? this.held : this.#queue).push(() => handler.onReply(reply));
    });
    return true;
  }

  /** Requests that are no reads, for gateways that know them. */
  protected other({ op }: Request, _handler: ReplyHandler): boolean {
    return assert.fail(`operation ${op}`);
  }

  /** Undefined: it is not there. */
  protected find(
    key: string,
  ): Readonly<Pick<FakeStream, 'incarnation' | 'contentType' | 'tail' | 'closed'>> | undefined {
    return this.#streams.get(key);
  }

  override closeTopic(topic: number): void {
    super.closeTopic(topic);
    for (const stream of this.#streams.values()) stream.topics.delete(topic);
  }

  // --- what writers do; it takes effect at once, its event is queued

  create(key: string, contentType = 'text/plain'): void {
    this.#streams.set(key, {
      incarnation: ++this.#incarnations,
      contentType,
      chunks: [],
      joined: undefined,
      starts: [],
      tail: 0,
      closed: false,
      hotStart: 0,
      topics: new Set(),
    });
    const topic = this.#awaiting.get(key);
    if (topic !== undefined) this.#tell(topic, (reply) => (reply.code = errorNumber('STREAM_NOT_FOUND')));
    this.#awaiting.delete(key);
  }

  append(key: string, body: string | Buffer, close = false): void {
    const stream = this.#stream(key);
    const chunk = Buffer.from(body);
    const start = stream.tail;
    if (chunk.length > 0) {
      stream.starts.push(start);
      stream.chunks.push(chunk);
      stream.joined = undefined;
      stream.tail += chunk.length;
    }
    stream.closed ||= close;
    const omitted = chunk.length > TAIL_EVENT_BYTES_MAX;
    this.#emit(stream, (reply) => {
      reply.flags |= (close ? REPLY_CLOSED : 0) | (omitted ? REPLY_BODY_OMITTED : 0);
      reply.startOffset = start;
      reply.nextOffset = start + chunk.length;
      if (!omitted && chunk.length > 0) reply.body = render(stream, [chunk]);
    });
    if (close) stream.topics.clear();
  }

  close(key: string): void {
    this.append(key, '', true);
  }

  /** All bytes so far move to the cold store. */
  flush(key: string): void {
    const stream = this.#stream(key);
    stream.hotStart = stream.tail;
  }

  /** The cold store gives out what the answer `index` waited for. */
  release(index = 0): void {
    this.held.splice(index, 1)[0]?.();
  }

  remove(key: string): void {
    const stream = this.#stream(key);
    this.#streams.delete(key);
    this.#emit(stream, (reply) => (reply.flags |= REPLY_DELETED));
  }

  /** Carries out the next `steps` queued things; all that are there, and what they cause, when not given. */
  pump(steps = PUMP_STEPS_MAX): void {
    for (let i = 0; i < steps; i++) {
      const next = this.#queue.shift();
      if (next === undefined) return;
      next();
    }
    assert.ok(steps < PUMP_STEPS_MAX, 'the readers and the gateway keep each other busy forever');
  }

  #stream(key: string): FakeStream {
    const stream = this.#streams.get(key);
    assert.ok(stream !== undefined, `the test created ${key}`);
    return stream;
  }

  /** The node answers nothing about the stream from now on. */
  refuseStream(key: string, code: ErrorCode): void {
    const stream = this.#streams.get(key);
    if (stream === undefined) return;
    this.#refused.set(key, code);
    this.#emit(stream, (reply) => (reply.code = errorNumber(code)));
  }

  protected enqueue(step: () => void): void {
    this.#queue.push(step);
    if (this.manual || this.#pumping) return;
    this.#pumping = true;
    setImmediate(() => {
      this.#pumping = false;
      this.pump();
    });
  }

  #emit(stream: FakeStream, fill: (reply: Reply) => void): void {
    for (const topic of stream.topics) {
      this.#tell(topic, (reply) => {
        if (isJson(stream.contentType)) reply.flags |= REPLY_RECORDS;
        fill(reply);
      });
    }
  }

  #tell(topic: number, fill: (reply: Reply) => void): void {
    const reply = new Reply();
    reply.reset(topic);
    reply.kind = REPLY_TAIL;
    fill(reply);
    const event = overwrittenLater(reply);
    this.enqueue(() => event((told) => this.topics.get(topic)?.onTail(told)));
  }

  #read(key: string, mode: number, value: number, maxBytes: number, topic: number): Reply {
    const reply = new Reply();
    const stream = this.#streams.get(key);
    const refused = this.#refused.get(key) ?? (stream === undefined ? 'STREAM_NOT_FOUND' : undefined);
    if (refused !== undefined || stream === undefined) {
      reply.code = errorNumber(refused ?? 'STREAM_NOT_FOUND');
      return reply;
    }
    const byRecord = mode !== READ_OFFSET && mode !== READ_NOW;
    let first = mode === READ_RECORD_NOW ? stream.chunks.length : value;
    if (byRecord && mode !== READ_RECORD_NOW) assert.equal(mode, READ_RECORD, 'the fake knows this mode');
    const start = byRecord
      ? (stream.starts[first] ?? stream.tail)
      : mode === READ_NOW
        ? stream.tail
        : Math.max(0, value);
    if (!byRecord) first = stream.starts.filter((at) => at < start).length;
    if (start > stream.tail) {
      reply.code = errorNumber('OFFSET_OUT_OF_RANGE');
      reply.nextOffset = stream.tail;
      return reply;
    }
    const all = (stream.joined ??= Buffer.concat(stream.chunks));
    let end = Math.min(stream.tail, start + (maxBytes === 0 ? 1024 * 1024 : maxBytes));
    let body: Uint8Array = all.subarray(start, end);
    if (isJson(stream.contentType)) {
      let last = first;
      while (last < stream.chunks.length && (last === first || (stream.starts[last + 1] ?? stream.tail) <= end)) last++;
      end = stream.starts[last] ?? stream.tail;
      body = render(stream, stream.chunks.slice(first, last));
      reply.flags |= REPLY_RECORDS;
      reply.recordStart = first;
      reply.recordNext = last;
    }
    reply.contentType = stream.contentType;
    reply.startOffset = start;
    reply.nextOffset = end;
    showRead(reply, stream.incarnation, 0);
    if (end === stream.tail) reply.flags |= REPLY_UP_TO_DATE | (stream.closed ? REPLY_CLOSED : 0);
    if (body.length > 0) reply.body = body;
    if (topic !== 0 && !reply.has(REPLY_CLOSED)) stream.topics.add(topic);
    return reply;
  }
}

function render(stream: FakeStream, chunks: readonly Buffer[]): Uint8Array {
  if (!isJson(stream.contentType)) return Buffer.concat(chunks);
  return Buffer.from(`[${chunks.map((chunk) => chunk.toString()).join(',')}]`);
}

/** The ring reuses its memory: after the handler has returned, the body it got is garbage. It is shared memory, too. */
function overwrittenLater(reply: Reply): (deliver: (reply: Reply) => void) => void {
  const body = reply.body;
  if (body === undefined) return (deliver) => deliver(reply);
  return (deliver) => {
    const shared = new Uint8Array(new SharedArrayBuffer(body.length));
    shared.set(body);
    reply.body = shared;
    deliver(reply);
    shared.fill(0x21);
  };
}
