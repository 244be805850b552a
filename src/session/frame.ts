/**
 * Requests of clients, one after the other in a message. A frame is read whole before anything is done with it, so one
 * that is cut short does nothing. Its options are headers, or query parameters, of the HTTP API, and are understood by
 * the code that understands those.
 */
import { BATCH_FRAMES_MAX } from '../base/limits.ts';
import { WriteHeaders } from '../http/headers.ts';
import { joinFrames } from '../protocol/append-batch.ts';
import type { StreamTarget } from '../protocol/request.ts';
import { MalformedMessage, type MessageReader } from './messagepack.ts';
import { APPEND, ATTRIBUTES, CREATE, CREDIT, DELETE, HEAD, READ, SUBSCRIBE, UNSUBSCRIBE } from './messages.ts';

const PRODUCER = ['producer-id', 'producer-epoch', 'producer-seq'] as const;
const CONDITION = ['if-match', 'if-none-match'] as const;
const BATCH_OPTIONS: ReadonlySet<string> = new Set(['content-type', ...PRODUCER, 'stream-expected-offset']);
const READ_OPTIONS: ReadonlySet<string> = new Set([
  'offset',
  'record',
  'tail_records',
  'max_bytes',
  'max_records',
  'record_view',
]);

interface Shape {
  /** Values of a frame, its options included. */
  readonly values: number;
  readonly options?: ReadonlySet<string>;
}

/** By the number of the message. */
const SHAPES: ReadonlyMap<number, Shape> = new Map<number, Shape>([
  [
    CREATE,
    {
      values: 6,
      options: new Set([
        ...['content-type', 'stream-closed', 'stream-seq', 'stream-ttl', 'stream-expires-at', 'stream-attrs'],
        ...PRODUCER,
        ...CONDITION,
      ]),
    },
  ],
  [
    APPEND,
    {
      values: 6,
      options: new Set([...BATCH_OPTIONS, ...CONDITION, 'stream-closed', 'stream-seq', 'stream-record-match']),
    },
  ],
  [HEAD, { values: 4 }],
  [READ, { values: 5, options: READ_OPTIONS }],
  [SUBSCRIBE, { values: 6, options: new Set([...READ_OPTIONS, 'wait']) }],
  [CREDIT, { values: 3 }],
  [UNSUBSCRIBE, { values: 2 }],
  [DELETE, { values: 5, options: new Set(CONDITION) }],
  [ATTRIBUTES, { values: 5 }],
]);

const ID_MAX = 0xffff_ffff;
/** Bytes of the options of a frame: as large as a block of headers may be (http/uws.ts). */
const OPTIONS_BYTES_MAX = 48 * 1024;
const SHOWN_CHARS_MAX = 40;

/** One frame, used again for the next one. Bodies are views of its message. */
export class Frame implements StreamTarget {
  kind = 0;
  id = 0;
  bucket = '';
  stream = '';
  group = 0;
  /** The whole frame, to be read again later. */
  bytes: Uint8Array = new Uint8Array(0);
  /** Undefined: nil was sent. */
  body: Uint8Array | undefined = undefined;
  /** The body came as several messages, which are joined as those of a batch. */
  isBatch = false;
  /** CREDIT and SUBSCRIBE: bytes that may be sent. */
  credit = 0;
  /** The options of a write. */
  readonly headers = new WriteHeaders();
  /** The options of a read. */
  query = '';
  /** Why the options cannot be taken; empty: they can. */
  fault = '';

  /** Throws MalformedMessage. */
  read(reader: MessageReader): void {
    const from = reader.at;
    const values = reader.array();
    this.kind = reader.uint();
    const shape = SHAPES.get(this.kind);
    if (shape === undefined) throw new MalformedMessage(`there is no message ${this.kind}`);
    if (values !== shape.values) {
      throw new MalformedMessage(`message ${this.kind} has ${shape.values} values, and ${values} came`);
    }
    this.id = reader.uint();
    if (this.id > ID_MAX) throw new MalformedMessage(`the id ${this.id} is above 2^32 - 1`);
    this.#readRest(reader, shape);
    this.bytes = reader.slice(from, reader.at);
  }

  #readRest(reader: MessageReader, { options }: Shape): void {
    this.body = undefined;
    this.isBatch = false;
    this.fault = '';
    if (this.kind === CREDIT) this.credit = reader.uint();
    if (this.kind === CREDIT || this.kind === UNSUBSCRIBE) return;
    this.bucket = reader.text();
    this.stream = reader.text();
    if (this.kind === SUBSCRIBE) this.credit = reader.uint();
    else if (this.kind === APPEND && reader.isArray) this.#readBatch(reader);
    else if (this.kind === APPEND || this.kind === CREATE || this.kind === ATTRIBUTES) this.#readBody(reader);
    if (options !== undefined) this.#readOptions(reader, this.isBatch ? BATCH_OPTIONS : options);
  }

  #readBody(reader: MessageReader): void {
    if (!reader.nil()) this.body = reader.bytes();
  }

  #readBatch(reader: MessageReader): void {
    const count = reader.array();
    const messages: Uint8Array[] = [];
    for (let i = 0; i < count; i++) {
      // One more than a batch may have is enough to refuse it.
      if (i <= BATCH_FRAMES_MAX) messages.push(reader.bytes());
      else reader.skip();
    }
    this.isBatch = true;
    this.body = joinFrames(messages);
  }

  #readOptions(reader: MessageReader, known: ReadonlySet<string>): void {
    const isRead = this.kind === READ || this.kind === SUBSCRIBE;
    const { headers } = this;
    const from = reader.at;
    const pairs: string[] = [];
    if (!isRead) headers.reset();
    const count = reader.map();
    for (let i = 0; i < count; i++) {
      const name = reader.text();
      if (!known.has(name)) {
        this.fault ||= `the option ${JSON.stringify(name.slice(0, SHOWN_CHARS_MAX))} does not go with this`;
        reader.skip();
        continue;
      }
      const value = reader.scalar();
      if (isRead) pairs.push(`${name}=${encodeURIComponent(value)}`);
      else headers.take(name, value);
    }
    this.query = pairs.join('&');
    if (reader.at - from > OPTIONS_BYTES_MAX) this.fault ||= `the options exceed ${OPTIONS_BYTES_MAX} bytes`;
  }
}

/** A body that is not there counts as an empty one. */
export const NO_BODY = new Uint8Array(0);
