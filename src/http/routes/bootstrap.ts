/**
 * GET /{bucket}/{stream}/bootstrap: the published snapshot and every message behind it up to the tail of the moment,
 * as multipart/mixed; a client goes on reading at Stream-Next-Offset. A part is one message of a byte stream, or one record.
 *
 * The parts come from reads that follow each other, wherever the bytes lie; what is appended meanwhile is left out. The first of
 * them comes before the status, so that a cold store that fails is a 5xx with its reason and not a 200 that breaks off. The
 * boundary is 128 random bits, so no content can hold it but by an accident less likely than a broken disk.
 */
import { randomBytes } from 'node:crypto';
import { errorNumber } from '../../base/errors.ts';
import { encodeUtf8 } from '../../base/utf8.ts';
import type { ReplyHandler } from '../../ports.ts';
import { formatOffset } from '../../protocol/header-values.ts';
import { QUERIES } from '../../protocol/operations.ts';
import { REPLY_CLOSED, type Reply } from '../../protocol/reply.ts';
import { requestFor } from '../../protocol/request.ts';
import { collect } from '../query.ts';
import type { RequestContext } from '../request.ts';
import { DEFAULT_CONTENT_TYPE, writeStoredType } from '../stored-type.ts';
import type { StreamHead, StreamingResponse } from '../streaming.ts';
import type { UwsResponse } from '../uws.ts';
import { writeRecordRange } from './position.ts';
import { type Published, Slices } from './snapshot.ts';
import { READ_FLAG_NO_TOUCH, READ_FLAG_PARTS, readIncarnation } from '../../protocol/queries/read.ts';
import { READ_OFFSET } from '../../protocol/read-fields.ts';

const LIVE: ReadonlySet<string> = new Set(['live']);
const NOTHING = new Uint8Array(0);
const STREAM_GONE = errorNumber('STREAM_GONE');
/** The stream may change between the question for its snapshot and the first read. */
const STARTS_MAX = 3;

export function handleBootstrap(call: RequestContext): void {
  const collected = collect(call.req.getQuery() ?? '', LIVE);
  const reason = !collected.ok ? collected.reason : collected.value.has('live') ? 'a bootstrap is not live' : '';
  if (reason !== '') return call.refuse('INVALID_QUERY', reason);
  if (call.server.backpressure.full) return call.refuse('ANSWERS_FULL');
  return new Bootstrap(call).start();
}

class Bootstrap implements ReplyHandler {
  readonly #call: RequestContext;
  readonly #response: StreamingResponse;
  readonly #boundary = `millrace-bootstrap-${randomBytes(16).toString('hex')}`;
  /** The first read is use of the lifetime, the others are part of it. */
  #isRead = false;
  #slices: Slices | undefined;
  #first: Published | undefined;
  #position = 0;
  #starts = 0;
  #begun = false;

  constructor(call: RequestContext) {
    this.#call = call;
    this.#response = call.streaming();
  }

  start(): void {
    this.#starts++;
    const call = this.#call;
    const slices = new Slices(call, this.#response, { choice: 'any' });
    this.#slices = slices;
    slices.start((first) => {
      if (call.responder.headOnly) return this.#response.whole(this.#head(first), undefined);
      this.#first = first;
      this.#prepare(first);
      if (this.#position >= first.tail) return this.#writeAll(slices, first, NOTHING);
      this.#response.hold(slices.body?.length ?? 0);
      return this.#next();
    });
  }

  get requestId(): string {
    return this.#call.requestId;
  }

  onReply(reply: Reply): void {
    this.#response.guard(() => this.#take(reply));
  }

  /** The snapshot, then `messages`, then what follows them. */
  #writeAll(slices: Slices, first: Published, messages: Uint8Array): void {
    this.#begun = true;
    this.#response.begin(this.#head(first));
    this.#response.write(this.#partHead(first.offset < 0 ? DEFAULT_CONTENT_TYPE : first.contentType), () => {
      slices.writeAll(() => this.#response.write('\r\n', () => this.#response.write(messages, () => this.#next())));
    });
  }

  #head(first: Published): StreamHead {
    return { status: 200, headers: (res) => this.#writeHeaders(res, first) };
  }

  #writeHeaders(res: UwsResponse, first: Published): void {
    // No media type that a browser shows, so it is saved instead.
    writeStoredType(res, `multipart/mixed; boundary=${this.#boundary}`);
    res.writeHeader('stream-snapshot-offset', first.offset < 0 ? '-1' : formatOffset(first.offset));
    if (first.offset >= 0) res.writeHeader('stream-snapshot-digest', first.digest);
    res.writeHeader('stream-next-offset', formatOffset(first.tail));
    res.writeHeader('stream-up-to-date', 'true');
    if ((first.flags & REPLY_CLOSED) !== 0) res.writeHeader('stream-closed', 'true');
    writeRecordRange(res, first);
  }

  #prepare(first: Published): void {
    this.#position = Math.max(0, first.offset);
    this.#isRead = false;
  }

  #next(): void {
    const { tail = 0 } = this.#first ?? {};
    if (this.#position >= tail) {
      this.#response.write(`--${this.#boundary}--\r\n`, () => this.#response.end());
      return;
    }
    const { group, bucket, stream } = this.#call;
    const request = requestFor(QUERIES.read, group, {
      ...{ bucket, stream, mode: READ_OFFSET, value: this.#position, maxBytes: this.#response.pieceBytes },
      readFlags: this.#isRead ? READ_FLAG_PARTS | READ_FLAG_NO_TOUCH : READ_FLAG_PARTS,
    });
    this.#isRead = true;
    // A cut when the answer has begun.
    if (!this.#call.gateway.send(request, this)) this.#response.fail('SHARD_BUSY');
  }

  #take(reply: Reply): void {
    const { incarnation, tail = 0 } = this.#first ?? {};
    // Recreated, or cut off by a start offset that rose.
    const changed = reply.code === STREAM_GONE || (reply.code === 0 && readIncarnation(reply) !== incarnation);
    if (changed && !this.#begun && this.#starts < STARTS_MAX) return this.start();
    if (reply.code !== 0) return this.#response.refusal(reply);
    if (changed || reply.body === undefined) return this.#response.cut();
    const parts = splitParts(reply.body, tail - reply.startOffset);
    const last = parts.ends.at(-1);
    if (last === undefined) return this.#response.cut();
    const position = reply.startOffset + last;
    const head = encodeUtf8(this.#partHead(reply.contentType));
    const slices = this.#slices;
    if (this.#begun || slices === undefined || this.#first === undefined) {
      this.#position = position;
      return this.#response.write(joinParts(parts, head), () => this.#next());
    }
    // Behind a snapshot of several slices they are read again: a slow reader must not make them wait in memory.
    if (!slices.isWhole) return this.#writeAll(slices, this.#first, NOTHING);
    this.#position = position;
    return this.#writeAll(slices, this.#first, joinParts(parts, head));
  }

  #partHead(contentType: string): string {
    return `--${this.#boundary}\r\nContent-Type: ${contentType}\r\n\r\n`;
  }
}

interface Parts {
  /** Ends of the messages, relative to the bytes. */
  readonly ends: readonly number[];
  readonly bytes: Uint8Array;
}

/** The parts of a READ_FLAG_PARTS answer that end within `limit` bytes. */
function splitParts(body: Uint8Array, limit: number): Parts {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const count = view.getUint32(0, true);
  const ends: number[] = [];
  for (let i = 0; i < count; i++) {
    const end = view.getUint32(4 + 4 * i, true);
    if (end > limit) break;
    ends.push(end);
  }
  return { ends, bytes: body.subarray(4 + 4 * count) };
}

const LINE_END = encodeUtf8('\r\n');

/** Each part with its head in front and a line end behind it, in one buffer. */
function joinParts({ ends, bytes }: Parts, head: Uint8Array): Uint8Array {
  const joined = new Uint8Array((ends.at(-1) ?? 0) + ends.length * (head.length + LINE_END.length));
  let at = 0;
  let start = 0;
  for (const end of ends) {
    joined.set(head, at);
    joined.set(bytes.subarray(start, end), at + head.length);
    joined.set(LINE_END, at + head.length + end - start);
    at += head.length + end - start + LINE_END.length;
    start = end;
  }
  return joined;
}
