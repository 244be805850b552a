/**
 * Requests of clients, one after the other in a message. A frame is read whole before anything is done with it, so one
 * that is cut short does nothing. Its options are headers, or query parameters, of the HTTP API, and are understood by
 * the code that understands those.
 */
import { ownCopy } from '../base/bytes.ts';
import { hash32 } from '../base/hash.ts';
import { BATCH_FRAMES_MAX } from '../base/limits.ts';
import { WriteHeaders } from '../http/headers.ts';
import { joinFrames } from '../protocol/append-batch.ts';
import { nameFault } from '../protocol/names.ts';
import type { StreamTarget } from '../protocol/request.ts';
import { MalformedMessage, MessageReader } from './messagepack.ts';
import { APPEND, ATTRIBUTES, CREATE, CREDIT, DELETE, HEAD, READ, SUBSCRIBE, UNSUBSCRIBE } from './messages.ts';

/** A body that is not there counts as an empty one. */
export const NO_BODY = new Uint8Array(0);

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

/** A stream as clients name it. */
export class SentName implements StreamTarget {
  readonly bucket: string;
  readonly stream: string;
  /** Names that differ have keys that differ. */
  readonly key: string;
  /** Why it is no name. */
  readonly fault: string | undefined;
  /** -1: not known yet. */
  group = -1;
  /** As they stand in messages. */
  readonly bytes: Uint8Array;
  readonly hash: number;

  constructor(bucket: string, stream: string, bytes = NO_BODY) {
    this.bucket = bucket;
    this.stream = stream;
    this.key = `${bucket}\0${stream}`;
    this.hash = hash32(hash32(0, bucket), stream);
    this.fault = nameFault(bucket, stream);
    this.bytes = bytes;
  }
}

/** Names that clients sent last, of at most so many bytes: with all that hangs on them they take up to 4 MiB. */
const NAMES_MAX = 8192;
const NAME_BYTES_KEPT = 64;
/** Options of an append are some dozen bytes. */
const OPTION_BYTES_KEPT = 256;

/** One frame, used again for the next one. Bodies are views of its message. */
export class Frame implements StreamTarget {
  kind = 0;
  id = 0;
  target = new SentName('', '');
  /** Bytes of the whole frame. */
  size = 0;
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
  #reader = new MessageReader(NO_BODY);
  #end = 0;
  /** By hashes of their bytes. Clients name the same few again and again: no text is made of them twice. */
  readonly #names: (SentName | undefined)[] = [];
  /** Options that `headers` has, as they stand in messages, and those they were looked up in. */
  #lastOptions = NO_BODY;
  #lastKnown: ReadonlySet<string> = BATCH_OPTIONS;

  get bucket(): string {
    return this.target.bucket;
  }

  get stream(): string {
    return this.target.stream;
  }

  get group(): number {
    return this.target.group;
  }

  /** The whole frame, to be read again later: a view of its message. */
  get bytes(): Uint8Array {
    return this.#reader.slice(this.#end - this.size, this.#end);
  }

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
    this.#reader = reader;
    this.#end = reader.at;
    this.size = reader.at - from;
  }

  #readRest(reader: MessageReader, { options }: Shape): void {
    this.body = undefined;
    this.isBatch = false;
    this.fault = '';
    if (this.kind === CREDIT) this.credit = reader.uint();
    if (this.kind === CREDIT || this.kind === UNSUBSCRIBE) return;
    this.target = this.#readName(reader);
    if (this.kind === SUBSCRIBE) this.credit = reader.uint();
    else if (this.kind === APPEND && reader.isArray) this.#readBatch(reader);
    else if (this.kind === APPEND || this.kind === CREATE || this.kind === ATTRIBUTES) this.#readBody(reader);
    if (options !== undefined) this.#readOptions(reader, this.isBatch ? BATCH_OPTIONS : options);
  }

  #readName(reader: MessageReader): SentName {
    const from = reader.at;
    reader.skipText();
    reader.skipText();
    const size = reader.at - from;
    const place = reader.hashFrom(from) & (NAMES_MAX - 1);
    reader.at = from;
    const known = this.#names[place];
    if (known !== undefined && reader.take(known.bytes)) return known;
    const [bucket, stream] = [reader.text(), reader.text()];
    if (size > NAME_BYTES_KEPT) return new SentName(bucket, stream);
    return (this.#names[place] = new SentName(bucket, stream, ownCopy(reader.slice(from, reader.at))));
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
    if (!isRead) {
      if (this.#lastOptions.length > 0 && known === this.#lastKnown && reader.take(this.#lastOptions)) return;
      this.#lastOptions = NO_BODY;
      headers.reset();
    }
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
    const size = reader.at - from;
    if (size > OPTIONS_BYTES_MAX) this.fault ||= `the options exceed ${OPTIONS_BYTES_MAX} bytes`;
    if (isRead || this.fault !== '' || size > OPTION_BYTES_KEPT) return;
    this.#lastOptions = ownCopy(reader.slice(from, reader.at));
    this.#lastKnown = known;
  }
}
